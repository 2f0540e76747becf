"""What a guest boots from and runs: Debian's kernel packages, an initramfs, an ACPI table, the command.

All of it is cached under $XDG_CACHE_HOME/cpu-audit-node, named by what it was made from. Whoever comes first builds
beside the final name and renames, so that two test runs may share the cache.
"""

import functools
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.node import acpi, bzimage, cpio
from tests.node.errors import NodeError

CHECKOUT = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).with_name("guest")
BUSYBOX = Path("/bin/busybox")
MODULES = {
    "software": ("ext4", "overlay", "9p", "net_failover"),
    "drivers": ("virtio_pci", "9pnet_virtio", "virtio_blk", "virtio_net", "virtio_rng"),
}

# The meta-packages that may lead to a kernel of each series: bookworm-security names the series, backports does not.
META_PACKAGES = {
    "6.12-rt": ("linux-image-6.12-rt-amd64", "linux-image-rt-amd64"),
    "6.1-rt": ("linux-image-rt-amd64",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """An unpacked kernel package."""

    root: Path
    release: str

    @property
    def vmlinuz(self) -> Path:
        """The bzImage."""
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """What /lib/modules/RELEASE is on an installed system."""
        return self.root / "lib" / "modules" / self.release


def cache_dir() -> Path:
    """The cache, made if absent."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "cpu-audit-node"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _run(argv: Sequence[str], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=True)
    except OSError as error:
        raise NodeError(f"{argv[0]}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise NodeError(f"{' '.join(argv)}: exit {error.returncode}: {error.stderr.strip()[-500:]}") from error
    return done.stdout


def _cached(target: Path, build: Callable[[Path], None]) -> Path:
    """``target``, built in a directory beside it by ``build(path)`` unless it is there."""
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as directory:
        built = Path(directory) / target.name
        build(built)
        try:
            built.rename(target)
        except OSError:
            if not target.exists():  # else another process was first, and its work is as good
                raise
    return target


def parse_kernel_package(text: str, kernel: str) -> tuple[str, str] | None:
    """The (package, version) that stanzas of ``apt-cache show META`` depend on for series ``kernel`` ("6.12-rt")."""
    series, flavour = kernel.split("-")
    wanted = rf"^Depends:.*?\b(linux-image-{re.escape(series)}\.[^\s,]*-{flavour}-amd64) \(= ([^)\s]+)\)"
    found = re.search(wanted, text, re.MULTILINE)
    return (found[1], found[2]) if found else None


@functools.cache
def kernel_package(kernel: str) -> tuple[str, str]:
    """The (package, version) of the newest kernel of the series "6.12-rt" or "6.1-rt" that apt knows."""
    if kernel not in META_PACKAGES:
        raise NodeError(f"no kernel {kernel!r}: choose from {', '.join(META_PACKAGES)}")
    for meta in META_PACKAGES[kernel]:
        shown = subprocess.run(["apt-cache", "show", meta], capture_output=True, text=True, check=False).stdout
        found = parse_kernel_package(shown, kernel)
        if found:
            return found
    raise NodeError(f"apt knows no {kernel} kernel ({', '.join(META_PACKAGES[kernel])}): run apt-get update")


def _unpack(package: str, version: str, root: Path) -> None:
    downloads = root.with_name("deb")
    downloads.mkdir()
    # The sandbox user of apt may not write here.
    _run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", f"{package}={version}"], downloads)
    (deb,) = downloads.glob("*.deb")
    _run(["dpkg", "-x", str(deb), str(root)])
    shutil.rmtree(downloads)


def _unpack_kernel(package: str, version: str, root: Path) -> None:
    _unpack(package, version, root)
    (modules,) = (root / "lib" / "modules").iterdir()
    _run(["depmod", "-b", str(root), modules.name])


def _place(package: str, version: str) -> Path:
    return cache_dir() / f"{package}_{version.replace(':', '%3a')}"


def fetch_package(package: str) -> Path:
    """The files of a package that is not installed here, as its service would start on this machine."""
    shown = _run(["apt-cache", "show", "--no-all-versions", package])
    version = next(line.split()[1] for line in shown.splitlines() if line.startswith("Version: "))
    return _cached(_place(package, version), functools.partial(_unpack, package, version))


def fetch_kernel(kernel: str) -> Kernel:
    """The newest kernel of a series, downloaded by apt and unpacked; nothing is installed on the host."""
    package, version = kernel_package(kernel)
    root = _cached(_place(package, version), functools.partial(_unpack_kernel, package, version))
    (modules,) = (root / "lib" / "modules").iterdir()
    return Kernel(root=root, release=modules.name)


def vmlinux(kernel: Kernel) -> Path:
    """The kernel of ``kernel``, unpacked."""

    def build(target: Path) -> None:
        target.write_bytes(bzimage.vmlinux(kernel.vmlinuz.read_bytes()))

    return _cached(cache_dir() / f"vmlinux-{kernel.root.name}", build)


def parse_insmod(text: str) -> list[Path]:
    """The files that ``modprobe --show-depends`` prints as ``insmod FILE``, in order; ``builtin NAME`` needs none."""
    lines = [line.split() for line in text.splitlines()]
    return [Path(words[1]) for words in lines if len(words) > 1 and words[0] == "insmod"]


def _module_files(kernel: Kernel) -> dict[Path, str]:
    """The files to load, in order, with their group in MODULES."""
    argv = ["modprobe", "-d", str(kernel.root), "-S", kernel.release, "--show-depends"]
    files: dict[Path, str] = {}
    for group, modules in MODULES.items():
        for module in modules:
            for file in parse_insmod(_run([*argv, module])):
                files.setdefault(file, group)
    return files


def _module(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _write_initramfs(kernel: Kernel, target: Path) -> None:
    files = {name: (GUEST / name).read_bytes() for name in ("init", "finish")}
    files["bin/busybox"] = BUSYBOX.read_bytes()
    for number, (path, group) in enumerate(_module_files(kernel).items()):
        files[f"modules/{group}/{number:02}-{path.name.removesuffix('.xz')}"] = _module(path)
    target.write_bytes(cpio.archive(files))


def initramfs(kernel: Kernel) -> Path:
    """The initramfs for a kernel: busybox, the drivers of the guest's devices, and ``guest/``."""
    parts = [kernel.root.name.encode(), repr(MODULES).encode(), BUSYBOX.read_bytes()]
    parts += [path.read_bytes() for path in (GUEST / "init", GUEST / "finish", Path(cpio.__file__))]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    target = cache_dir() / f"initramfs-{kernel.release}-{key}.cpio.gz"
    return _cached(target, functools.partial(_write_initramfs, kernel))


def _compile(source: str, target: Path) -> None:
    asl = target.with_suffix(".asl")
    asl.write_text(source)
    _run(["iasl", "-p", str(target.with_suffix("")), str(asl)])


def idle_table(cpus: int) -> Path:
    """The compiled ACPI table with idle states for ``cpus`` CPUs (see acpi.py)."""
    source = acpi.idle_table(cpus)
    key = hashlib.sha256(source.encode()).hexdigest()[:16]
    return _cached(cache_dir() / f"idle-{key}.aml", functools.partial(_compile, source))


def _bundle_key() -> str:
    installed = sorted(path.name for path in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))
    parts = [text.encode() for text in (sys.version, sys.prefix, str(CHECKOUT), *installed)]
    for package in ("auditor", "probes", "reports", "tests/node/drivers"):
        parts += [path.read_bytes() for path in sorted((CHECKOUT / package).rglob("*.py"))]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _write_bundle(target: Path) -> None:
    _run([sys.executable, "-m", "tests.node.drivers.bundle", str(target)], CHECKOUT)


@functools.cache
def bundle() -> Path:
    """The command with all that it imports, for the audits of a guest (see drivers/bundle.py)."""
    return _cached(cache_dir() / f"bundle-{_bundle_key()}", _write_bundle)


def make_scratch(target: Path, size_mib: int = 512) -> None:
    """An ext4 image for /scratch, complete: nothing is left for ext4lazyinit to write in the guest."""
    with target.open("wb") as image:
        image.truncate(size_mib << 20)
    options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
    _run(["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-E", options, str(target)])
