"""What a release has to pass, beyond `make test`: run by `make release-check`, from the last commit.

A clean clone, the README's install lines in a fresh environment without our development packages, its first snippet
there without a model hub, the wheel, the site with its links, and one version in every file that names it.
"""

import os
import re
import subprocess
import sys
import tempfile
import venv
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        run("git", "clone", "--quiet", str(ROOT), str(clone))
        step("one version", check_versions(clone))
        step("site", check_site(clone))
        step("README in a fresh environment", check_readme(clone, Path(folder) / "fresh"))
    print("release-check: passed; tag the commit, build with `python -m build`, and upload dist/")


def step(name: str, about: str) -> None:
    print(f"{name}: {about}", flush=True)


def run(*command: str, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"release-check: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def check_versions(clone: Path) -> str:
    """The version of pyproject.toml, if the package, the changelog and the citation have the same."""
    patterns = {
        "pyproject.toml": r'(?m)^version = "([^"]+)"',
        "geco/__init__.py": r'__version__ = "([^"]+)"',
        "CHANGELOG.md": r"(?m)^## (\d[^ \n]*)",
        "CITATION.cff": r"(?m)^version: (\S+)",
    }
    found = {name: match_of(pattern, (clone / name).read_text()) for name, pattern in patterns.items()}
    if len(set(found.values())) != 1:
        sys.exit(f"release-check: versions differ: {found}")
    return found["pyproject.toml"]


def match_of(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else "none"


class Links(HTMLParser):
    """Targets of the links and images of a page, and the names that can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.names.add(value)
            if name in ("href", "src") and tag in ("a", "img") and value:
                self.targets.append(value)


def check_site(clone: Path) -> str:
    """Builds the site strictly; every local link and anchor of its pages leads somewhere."""
    tool = Path(sys.executable).with_name("zensical")
    run(str(tool), "build", "--strict", "--clean", cwd=clone)
    pages = {path: read_links(path) for path in (clone / "site").rglob("*.html")}
    broken = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            place = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = place / "index.html" if place.is_dir() else place
            anchored = not parts.fragment or place not in pages or unquote(parts.fragment) in pages[place].names
            if not place.exists() or not anchored:
                broken.append(f"{page.relative_to(clone / 'site')}: {target}")
    if broken:
        sys.exit("release-check: broken links\n" + "\n".join(broken))
    return f"{len(pages)} pages, all links lead somewhere"


def read_links(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text())
    return links


def check_readme(clone: Path, fresh: Path) -> str:
    """Runs the README's install lines and its first snippet in an environment that has nothing else."""
    venv.create(fresh, with_pip=True)
    path = f"{fresh / 'bin'}{os.pathsep}{os.environ['PATH']}"
    # Constraints keep torch to the release that is tested, which needs no gigabytes of CUDA libraries.
    around = {
        **os.environ,
        "PATH": path,
        "PIP_CONSTRAINT": str(clone / "constraints.txt"),
        "GECO_CACHE": str(fresh / "cache"),
    }
    around.pop("PYTHONPATH", None)
    readme = (clone / "README.md").read_text()
    install = re.findall(r"```bash\n(.*?)```", readme, re.DOTALL)[0]
    snippet = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
    run("bash", "-euc", install, cwd=clone, env=around)
    offline = {**around, "HF_HUB_OFFLINE": "1"}
    where = run("python", "-P", "-c", "import geco; print(geco.__file__)", cwd=clone, env=offline)
    if not Path(where.strip()).is_relative_to(fresh):
        sys.exit(f"release-check: geco was imported from {where}")
    printed = run("python", "-P", "-c", snippet, cwd=clone, env=offline)
    if not re.fullmatch(r"nose \(\d+, \d+\)\ntail tip not visible\n", printed):
        sys.exit(f"release-check: the first snippet printed\n{printed}")
    return "installed, and the first snippet finds the nose and misses the tail"


if __name__ == "__main__":
    main()
