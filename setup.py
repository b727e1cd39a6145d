"""Package definition; the tools' settings are in pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent


def _version() -> str:
    """`__version__` of tfdp/__init__.py, read without importing the package."""
    text = (HERE / "tfdp" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__(?::\s*\w+)?\s*=\s*"([^"]+)"', text, re.MULTILINE)
    if match is None:
        raise RuntimeError('tfdp/__init__.py has no line `__version__ = "..."`')
    return match.group(1)


def _readme() -> str:
    path = HERE / "README.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# An MPI with its mpiexec comes as a wheel; mpi4py finds it.
MPI = ["mpi4py>=4.1", "mpich>=5.0"]
PARQUET = ["pyarrow>=17"]
BENCHMARKS = ["matplotlib>=3.9"]
NOTEBOOKS = ["ipykernel>=6.29", "matplotlib>=3.9", "nbclient>=0.10", "nbformat>=5.10"]

setup(
    name="tfdp",
    version=_version(),
    description="Exact data-parallel training for TensorFlow and Keras 3",
    long_description=_readme(),
    long_description_content_type="text/markdown",
    author="tfdp developers",
    license="MIT",
    packages=find_packages(include=["tfdp", "tfdp.*"]),
    package_data={"tfdp": ["py.typed"], "tfdp.data": ["assets/*"]},
    python_requires=">=3.11,<3.14",
    install_requires=[
        # The strategies override private parts of these two: each new minor is tried first.
        "tensorflow>=2.21,<2.22",
        "keras>=3.15,<3.16",
        "numpy>=1.26",
        "tensorflow-datasets>=4.9.9",
        # tensorflow-datasets imports it without asking for it.
        "importlib_resources>=6.4",
        # tf.summary raises without it, and TensorFlow no longer depends on it.
        "tensorboard>=2.20",
        "PyYAML>=6.0.1",
        "rich>=13.7",
    ],
    extras_require={
        "benchmarks": BENCHMARKS,
        "mpi": MPI,
        "notebooks": NOTEBOOKS,
        "parquet": PARQUET,
        "test": [
            "import-linter>=2.1",
            "jsonschema>=4.23",
            "mypy>=1.15",
            "pandas>=2.2",
            "psutil>=6.1",
            "pytest>=8.3",
            "pytest-xdist>=3.6",
            "ruff>=0.11",
            "types-PyYAML>=6.0.12",
            *MPI,
            *NOTEBOOKS,
            *PARQUET,
        ],
    },
    entry_points={"console_scripts": ["tfdp = tfdp.cli.main:main"]},
    classifiers=[
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
