"""Finding, verifying, fetching and listing files; every file here is made up."""

import hashlib
import http.server
import re
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from functools import partial

import pytest
from acvbook.datasets import __main__ as command_line
from acvbook.datasets import fetch as fetching
from acvbook.datasets import registry
from acvbook.datasets.fetch import fetch
from oracles.wrappers import raises
from places import ROOT

CONTENT = b"made up\n"
TOY = registry.DataSet(
    "toy", "A toy", "https://example.org", "none", "nobody", "Ask.",
    files={"a.csv": hashlib.sha256(CONTENT).hexdigest()},
)  # fmt: skip


def use_only(monkeypatch, **changes):
    """Make the toy set, with these changes, the whole registry."""
    for module in (registry, command_line):
        monkeypatch.setattr(module, "data_sets", lambda: {"toy": replace(TOY, **changes)})


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A registry of one small set; returns the folders that are searched, $ACVLIB_DATA's first."""
    use_only(monkeypatch)
    monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / "cache" / name)
    monkeypatch.setenv("ACVLIB_DATA", str(tmp_path / "given"))
    folders = tmp_path / "given" / "toy", tmp_path / "cache" / "toy"
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


@pytest.fixture
def served(tmp_path):
    (tmp_path / "public").mkdir()
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = partial(quiet, directory=tmp_path / "public")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield tmp_path / "public", f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_registry_is_complete():
    raises("no data set 'x'.*dodgers", registry.get, "x", error=KeyError)
    assert len(registry.data_sets()) == 10
    for data_set in registry.data_sets().values():
        said = ("title", "source", "licence", "citation", "files")
        assert all(getattr(data_set, name) for name in said)
        assert all(len(sha256) == 64 and int(sha256, 16) for sha256 in data_set.files.values())
        assert set(data_set.urls) in (set(), set(data_set.files))


def test_missing_file_names_places_and_remedy_and_a_corrupt_one_is_not_passed_over(toy):
    message = r"given.*or.*cache.*by hand from https://example\.org"
    toy[0].rmdir()  # $ACVLIB_DATA has other sets
    raises(message, registry.find, "toy", "a.csv", error=registry.DataNotFound)
    given, cached = toy
    given.mkdir()
    (given / "a.csv").write_bytes(b"altered")
    (cached / "a.csv").write_bytes(CONTENT)
    with pytest.raises(registry.DataCorrupt) as raised:
        registry.find("toy", "a.csv")
    hashes = hashlib.sha256(b"altered").hexdigest(), TOY.files["a.csv"]
    assert all(part in str(raised.value) for part in (str(given / "a.csv"), *hashes, "Delete"))


def test_fetch_needs_a_route_and_verifies_each_file(toy, served, monkeypatch):
    public, address = served
    raises(r"no download; by hand .* Ask\.", fetch, "toy", error=registry.DataNotFound)
    use_only(monkeypatch, urls={"a.csv": "http://127.0.0.1:9/a.csv"})  # as without a network
    raises(r"toy: download failed .*refused.* Ask\.", fetch, "toy", error=registry.DataNotFound)
    use_only(monkeypatch, urls={"a.csv": f"{address}/absent.csv"})
    raises(r"download failed .*404.* Ask\.", fetch, "toy", error=registry.DataNotFound)
    use_only(monkeypatch, urls={"a.csv": f"{address}/b.csv"})
    (public / "b.csv").write_bytes(b"altered")
    raises(r"does not match the known hash", fetch, "toy")
    assert not (registry.cache_folder("toy") / "a.csv").exists()
    (public / "b.csv").write_bytes(CONTENT)
    folder = fetch("toy")
    assert registry.find("toy", "a.csv") == folder / "a.csv"


def test_fetch_converts_an_archive_to_the_known_file_or_keeps_nothing(toy, served, monkeypatch):
    public, address = served
    use_only(monkeypatch, archive=f"{address}/original.zip")
    (public / "original.zip").write_bytes(b"<html>Sorry</html>")
    raises(r"not a zip file.* Ask\.", fetch, "toy", error=registry.DataNotFound)
    with zipfile.ZipFile(public / "original.zip", "w") as archive:
        for name in (*fetching.MEMBERS, "never unpacked"):
            archive.writestr(name, "")
    readings = {"both": b"another", "left": b"reading"}
    monkeypatch.setattr(fetching, "canonical", lambda _, ends: readings[ends])
    raises("not the known counts and games", fetch, "toy", error=registry.DataCorrupt)
    assert not list(registry.cache_folder("toy").iterdir())
    readings["left"] = CONTENT
    fetch("toy")
    assert registry.find("toy", "a.csv").read_bytes() == CONTENT


def test_the_command_lists_and_fails_in_one_line(toy, capsys, monkeypatch):
    assert command_line.main([]) == ""
    assert "toy           no a.csv: by hand" in capsys.readouterr().out
    (toy[0] / "a.csv").write_bytes(CONTENT)
    command_line.main([])
    assert "toy           sha256 ok" in capsys.readouterr().out
    use_only(monkeypatch, files={"absent.csv": "0" * 64, **TOY.files})
    (toy[0] / "a.csv").write_bytes(b"altered")
    assert "expected" in command_line.main([])
    assert "toy has no download; by hand" in command_line.main(["fetch", "toy"])
    monkeypatch.setenv("ACVLIB_DATA", "nowhere")
    assert "ACVLIB_DATA=nowhere is not a directory" in command_line.main([])


def test_what_the_readme_of_data_says_to_type_works(tmp_path):
    typed = (ROOT / "data/README.md").read_text("utf-8")
    listed, fetched, converted = re.findall(r"^    python (-(?:\\\n|.)*)$", typed, re.M)
    assert listed.split("#")[0].strip() == "-m acvbook.datasets"
    assert registry.get(fetched.split("#")[0].split()[-1]).archive
    (tmp_path / "the-folder").mkdir()
    for name, line in ("data", "04/10/2005 00:05,7"), ("events", "04/10/05,00:00:00,00:05:00"):
        (tmp_path / f"the-folder/Dodgers.{name}").write_text(line + "\n")
    subprocess.run(f'"{sys.executable}" {converted}', shell=True, cwd=tmp_path, check=True)
    written = (tmp_path / "dodgers_counts.csv").read_text()
    assert written == "timestamp,count,in_game\n2005-04-10 00:05,7,1\n"
