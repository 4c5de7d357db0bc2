"""What hatchling does beyond packing reprolab_nf4/: builds the library for this kind of machine."""

import subprocess
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Library(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        if version == "editable":  # which takes the one that make dropin built
            return
        done = subprocess.run("scripts/dropin", cwd=self.root)
        if done.returncode:  # it has said why
            raise SystemExit(done.returncode)
        name = "libreprolab_nf4.so"
        build_data["force_include"][f"build/dropin/{name}"] = f"reprolab_nf4/{name}"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
