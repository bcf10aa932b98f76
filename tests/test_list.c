/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "mci_list.h"
#include "suite.h"

struct item {
    int number;
    struct mci_link link;
};

static struct item *item_of(struct mci_link *link)
{
    return MCI_CONTAINER(link, struct item, link);
}

/* Walks both ways and compares with the numbers expected. */
static void assert_order(struct mci_link *head, const int *numbers,
                         size_t count)
{
    struct mci_link *forth = head->next;
    struct mci_link *back = head->prev;
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(item_of(forth)->number, numbers[i]);
        ck_assert_int_eq(item_of(back)->number, numbers[count - 1 - i]);
        forth = forth->next;
        back = back->prev;
    }
    ck_assert_ptr_eq(forth, head);
    ck_assert_ptr_eq(back, head);
}

START_TEST(test_links_stand_in_the_order_of_pushes)
{
    struct mci_link head;
    struct item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    mci_list_init(&head);
    ck_assert(mci_list_is_empty(&head));
    mci_list_push_back(&head, &items[1].link);
    mci_list_push_back(&head, &items[2].link);
    mci_list_push_front(&head, &items[0].link);
    ck_assert(!mci_list_is_empty(&head));
    assert_order(&head, (const int[]){0, 1, 2}, 3);
}
END_TEST

START_TEST(test_a_list_is_appended_whole)
{
    struct mci_link head;
    struct mci_link other;
    struct item items[4] = {
        {.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    mci_list_init(&head);
    mci_list_init(&other);
    mci_list_append(&head, &other);
    ck_assert(mci_list_is_empty(&head));
    mci_list_push_back(&other, &items[0].link);
    mci_list_append(&head, &other);
    ck_assert(mci_list_is_empty(&other));
    for (int i = 1; i < 4; i++) {
        mci_list_push_back(&other, &items[i].link);
    }
    mci_list_append(&head, &other);
    mci_list_append(&head, &other);
    ck_assert(mci_list_is_empty(&other));
    assert_order(&head, (const int[]){0, 1, 2, 3}, 4);
    mci_list_remove(&items[3].link);
    assert_order(&head, (const int[]){0, 1, 2}, 3);
}
END_TEST

START_TEST(test_removing_twice_is_harmless)
{
    struct mci_link head;
    struct item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    mci_list_init(&head);
    for (int i = 0; i < 3; i++) {
        mci_list_push_back(&head, &items[i].link);
    }
    mci_list_remove(&items[1].link);
    mci_list_remove(&items[1].link);
    assert_order(&head, (const int[]){0, 2}, 2);
    ck_assert(mci_list_is_empty(&items[1].link));
    mci_list_push_front(&head, &items[1].link);
    assert_order(&head, (const int[]){1, 0, 2}, 3);
    for (int i = 0; i < 3; i++) {
        mci_list_remove(&items[i].link);
    }
    ck_assert(mci_list_is_empty(&head));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("list");
    TCase *tcase = tcase_create("list");
    tcase_add_test(tcase, test_links_stand_in_the_order_of_pushes);
    tcase_add_test(tcase, test_a_list_is_appended_whole);
    tcase_add_test(tcase, test_removing_twice_is_harmless);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
