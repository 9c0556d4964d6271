"""What is installed: this package's version, and another project's package in its folder."""
from importlib import metadata
from pathlib import Path

NAME = "batchflow-data"   # on PyPI; `batchflow` there is another project, which is imported alike
NAMESAKE = "batchflow"


def version() -> str:
    """Of the tree that this package was installed from, or lies in."""
    tree = Path(__file__).resolve().parents[2] / "VERSION"
    if tree.is_file():
        return tree.read_text().strip()
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        from .library import library
        said: bytes = library().bf_version()
        return said.decode()


def refuse_namesake() -> None:
    """Both write into the folder `batchflow`, so that neither is whole where both are installed."""
    for found in metadata.distributions(name=NAMESAKE):
        folder = Path(str(found.locate_file("batchflow"))).resolve()
        if folder == Path(__file__).resolve().parent:
            raise ImportError(
                f"two packages that are imported as 'batchflow' are installed in {folder}: "
                f"{NAME}, which this is, and {NAMESAKE} {found.version}, another project. Keep one: "
                f"pip uninstall {NAMESAKE} {NAME}; pip install {NAME}")
