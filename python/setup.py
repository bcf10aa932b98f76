# SPDX-License-Identifier: Apache-2.0
"""Builds the libraries, the commands and the extensions with the project's own
CMake files, and puts them into the package: mckv/lib, mckv/bin, mckv/*.so.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent
COMMANDS = ("mc-master", "mc-store", "mc-events")


def version():
    text = (PROJECT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(mckv VERSION ([0-9.]+)", text).group(1)


class Afresh(build):
    """A module that is gone from the source is gone from the wheel."""

    def run(self):
        for package in ("mckv", "mooncake"):
            shutil.rmtree(os.path.join(self.build_lib, package), ignore_errors=True)
        super().run()


class ByCMake(build_ext):
    """One build for all extensions. CMAKE_ARGS of the environment is passed on;
    MCKV_BUILD_DIR names the folder to build in, and is kept."""

    def run(self):
        if self.editable_mode:
            target = HERE / "mckv"
        else:
            target = pathlib.Path(self.build_lib).resolve() / "mckv"
        build = pathlib.Path(os.environ.get("MCKV_BUILD_DIR") or self.build_temp).resolve()
        prefix = build / "prefix"
        self.build(build)
        self.cmake("--install", build, "--prefix", prefix, "--strip")
        self.cmake("--install", build, "--prefix", prefix, "--strip", "--component", "python")
        self.collect(prefix, target)

    @staticmethod
    def cmake(*words):
        subprocess.run(["cmake", *map(str, words)], check=True)

    def build(self, build):
        build.mkdir(parents=True, exist_ok=True)
        options = ["-DMC_TESTS=OFF", "-DMC_EXAMPLES=OFF", "-DMC_BENCH=OFF", "-DMC_FUZZ=OFF",
                   "-DMC_PYTHON=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                   "-DCMAKE_INSTALL_LIBDIR=lib", "-DPython3_EXECUTABLE=" + sys.executable]
        if shutil.which("ninja"):
            options += ["-G", "Ninja"]
        options += os.environ.get("CMAKE_ARGS", "").split()
        self.cmake("-S", PROJECT, "-B", build, *options)
        jobs = self.parallel or os.cpu_count() or 1
        self.cmake("--build", build, "-j", jobs)

    @staticmethod
    def collect(prefix, target):
        """Libraries under the names by which they are looked for, nothing twice."""
        for folder in ("lib", "bin"):
            shutil.rmtree(target / folder, ignore_errors=True)
            (target / folder).mkdir(parents=True)
        for library in (prefix / "lib").glob("libmckv*.so.[0-9]"):
            shutil.copy(library.resolve(), target / "lib" / library.name)
        for command in COMMANDS:
            shutil.copy(prefix / "bin" / command, target / "bin" / command)
        for extension in (prefix / "mckv").glob("*.so"):
            shutil.copy(extension, target / extension.name)

    def get_outputs(self):
        return []


setup(
    version=version(),
    packages=find_packages(include=["mckv*", "mooncake*"]),
    package_data={"": ["*.pyi", "py.typed"]},
    # What makes the wheel one of this machine and this Python.
    ext_modules=[Extension("mckv._store", sources=[])],
    cmdclass={"build": Afresh, "build_ext": ByCMake},
)
