"""Installs a small plugin package into a folder, as pip would, without pip."""

from pathlib import Path


def install_plugin(
    folder: Path, name: str, source: str, *, distribution: str = "stranger", version: str = "1.0"
) -> None:
    """Writes a module and the metadata that makes it an entry point; `folder` must be on the module search path."""
    module = f"plugin_{name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    metadata = folder / f"{distribution}-{version}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    entry_points = metadata / "entry_points.txt"
    known = entry_points.read_text() if entry_points.exists() else "[cera]\n"
    entry_points.write_text(f"{known}{name} = {module}\n")
