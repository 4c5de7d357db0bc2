"""Hatchling's build hook: builds the library for this kind of machine."""

import subprocess
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Library(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        if version == "editable":  # uses the library that `make dropin` built
            return
        process = subprocess.run("scripts/dropin", cwd=self.root)
        if process.returncode:  # the script has printed why
            raise SystemExit(process.returncode)
        for name in ("libreprolab_nf4.so", "_layers.abi3.so"):
            if not (Path(self.root) / "build/dropin" / name).is_file():
                raise SystemExit(f"wheel: {name} was not built: install the headers of Python 3")
            build_data["force_include"][f"build/dropin/{name}"] = f"reprolab_nf4/{name}"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        # Not abi3: without the extension, the package also works on Pythons without that ABI.
        build_data["tag"] = f"py3-none-{platform}"
