"""Finding, verifying, fetching and listing files; every file here is made up."""

import hashlib
import http.server
import threading
import tracemalloc
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from acvbook.datasets import __main__ as command_line
from acvbook.datasets import registry
from acvbook.datasets.fetch import _INSTALL, fetch, unpack

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
    """A registry of one small set; returns the two folders that are searched, $ACVLIB_DATA's
    first.
    """
    use_only(monkeypatch)
    monkeypatch.setattr(registry, "cache_folder", lambda name: tmp_path / "cache" / name)
    monkeypatch.setenv("ACVLIB_DATA", str(tmp_path / "given"))
    folders = tmp_path / "given" / "toy", tmp_path / "cache" / "toy"
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


@pytest.fixture
def served(tmp_path):
    """A folder and the local address that serves it."""
    (tmp_path / "public").mkdir()
    handler = partial(QuietHandler, directory=tmp_path / "public")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield tmp_path / "public", f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_registry_is_complete():
    assert len(registry.data_sets()) == 10
    for data_set in registry.data_sets().values():
        assert all(
            [data_set.title, data_set.source, data_set.licence, data_set.citation, data_set.files]
        )
        assert all(len(sha256) == 64 and int(sha256, 16) for sha256 in data_set.files.values())
        assert set(data_set.urls) in (set(), set(data_set.files))


def test_unknown_name_lists_the_known():
    with pytest.raises(KeyError, match="no data set 'x'.*dodgers"):
        registry.get("x")


def test_given_folder_comes_before_cache(toy):
    given, cached = toy
    (cached / "a.csv").write_bytes(CONTENT)
    assert registry.find("toy", "a.csv") == cached / "a.csv"
    (given / "a.csv").write_bytes(CONTENT)
    assert registry.find("toy", "a.csv") == given / "a.csv"


def test_missing_file_names_places_and_remedy(toy):
    with pytest.raises(
        registry.DataNotFound, match=r"given.*or.*cache.*by hand from https://example\.org"
    ):
        registry.find("toy", "a.csv")


def test_corrupt_file_is_not_passed_over_for_a_good_one(toy):
    given, cached = toy
    (given / "a.csv").write_bytes(b"altered")
    (cached / "a.csv").write_bytes(CONTENT)
    with pytest.raises(registry.DataCorrupt) as raised:
        registry.find("toy", "a.csv")
    for part in (
        str(given / "a.csv"),
        hashlib.sha256(b"altered").hexdigest(),
        TOY.files["a.csv"],
        "Delete",
    ):
        assert part in str(raised.value)


def test_converted_file_must_be_the_canonical_one(toy):
    with pytest.raises(registry.DataCorrupt, match=r"converted a\.csv: sha256 is .*, expected"):
        registry.store_converted("toy", "a.csv", b"converted\n")
    assert not list(registry.cache_folder("toy").iterdir())
    path = registry.store_converted("toy", "a.csv", CONTENT)
    assert registry.find("toy", "a.csv") == path
    path.write_bytes(CONTENT[:-1])  # cut short
    with pytest.raises(registry.DataCorrupt):
        registry.find("toy", "a.csv")


def test_no_folder_has_checksums_of_its_own(toy):
    for folder in toy:
        (folder / "a.csv").write_bytes(b"forged")
        digest = hashlib.sha256(b"forged").hexdigest()
        (folder / "SHA256SUMS").write_text(f"{digest}  a.csv\n")
        with pytest.raises(registry.DataCorrupt):
            registry.find("toy", "a.csv")


def test_interrupted_conversion_leaves_nothing_that_looks_found(toy, monkeypatch):
    def stop(draft, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        registry.store_converted("toy", "a.csv", CONTENT)
    assert not list(registry.cache_folder("toy").iterdir())


def test_fetch_verifies_each_file(toy, served, monkeypatch):
    public, address = served
    use_only(monkeypatch, urls={"a.csv": f"{address}/b.csv"})
    (public / "b.csv").write_bytes(b"altered")
    with pytest.raises(ValueError, match=r"does not match the known hash"):
        fetch("toy")
    assert not (registry.cache_folder("toy") / "a.csv").exists()
    (public / "b.csv").write_bytes(CONTENT)
    folder = fetch("toy")
    assert registry.find("toy", "a.csv") == folder / "a.csv"


def test_fetch_unpacks_an_archive_and_hands_it_on(toy, served, monkeypatch):
    public, address = served
    with zipfile.ZipFile(public / "original.zip", "w") as archive:
        archive.writestr("original.txt", CONTENT)
        archive.writestr("../../elsewhere.txt", "never unpacked")
    installed = {}
    originals = {"original.txt": len(CONTENT)}
    monkeypatch.setitem(_INSTALL, "toy", (lambda f: installed.update(read_all(f)), originals))
    use_only(monkeypatch, archive=f"{address}/original.zip")
    fetch("toy")
    assert installed == {"original.txt": CONTENT}


@pytest.mark.parametrize("declared", [30_000_000, 4])
def test_a_bomb_is_refused_whatever_size_it_declares(tmp_path, declared):
    """30 MB of zeros, packed to 30 kB; also where the archive says that it is 4 bytes long."""
    size, archive = 30_000_000, tmp_path / "bomb.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("big.txt", bytes(size))
    content = archive.read_bytes()
    assert content.count(size.to_bytes(4, "little")) == 2
    said = content.replace(size.to_bytes(4, "little"), declared.to_bytes(4, "little"))
    archive.write_bytes(said)
    tracemalloc.start()
    with pytest.raises((registry.DataCorrupt, zipfile.BadZipFile), match="than 1,000|Bad CRC"):
        unpack(archive, tmp_path / "out", {"big.txt": 1000})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert not list((tmp_path / "out").iterdir())


def test_an_archive_without_the_original_says_so(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("other.txt", "")
    with pytest.raises(registry.DataCorrupt, match=r"there is no original\.txt in it"):
        unpack(tmp_path / "a.zip", tmp_path / "out", {"original.txt": 10})


def test_a_download_without_end_is_cut_off(toy, served, monkeypatch):
    public, address = served
    (public / "a.csv").write_bytes(bytes(200_000))
    use_only(monkeypatch, urls={"a.csv": f"{address}/a.csv"})
    with pytest.raises(registry.DataNotFound, match="more than 100,000 bytes came"):
        fetch("toy", largest=100_000)
    assert not list(registry.cache_folder("toy").iterdir())


def read_all(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_fetch_of_something_else_than_an_archive(toy, served, monkeypatch):
    public, address = served
    (public / "original.zip").write_bytes(b"<html>Sorry</html>")
    monkeypatch.setitem(_INSTALL, "toy", (pytest.fail, {"original.txt": 10}))
    use_only(monkeypatch, archive=f"{address}/original.zip")
    with pytest.raises(registry.DataNotFound, match=r"not a zip file.* Ask\."):
        fetch("toy")


def test_fetch_without_a_route_says_what_to_do(toy):
    with pytest.raises(registry.DataNotFound, match=r"no download; by hand .* Ask\."):
        fetch("toy")


def test_fetch_of_an_absent_origin_says_what_to_do(toy, served, monkeypatch):
    use_only(monkeypatch, urls={"a.csv": f"{served[1]}/absent.csv"})
    with pytest.raises(registry.DataNotFound, match=r"download failed .*404.* Ask\."):
        fetch("toy")


@pytest.mark.parametrize(
    ("content", "exit_code", "state"),
    [(None, 0, "missing"), (CONTENT, 0, "real, sha256 ok"), (b"altered", 1, "CORRUPT")],
)
def test_list(toy, capsys, content, exit_code, state):
    if content is not None:
        (toy[0] / "a.csv").write_bytes(content)
    assert command_line.main([]) == exit_code
    assert f"toy           {state}" in capsys.readouterr().out


def test_missing_file_does_not_hide_a_corrupt_one(toy, capsys, monkeypatch):
    use_only(monkeypatch, files={"absent.csv": "0" * 64, **TOY.files})
    (toy[0] / "a.csv").write_bytes(CONTENT)
    assert command_line.main(["list"]) == 0
    assert "incomplete        no absent.csv" in capsys.readouterr().out
    (toy[0] / "a.csv").write_bytes(b"altered")
    assert command_line.main(["list"]) == 1


def test_list_names_a_mistyped_data_folder(toy, capsys, monkeypatch):
    monkeypatch.setenv("ACVLIB_DATA", "nowhere")
    assert command_line.main([]) == 1
    assert "ACVLIB_DATA=nowhere is not a directory" in capsys.readouterr().err


def test_fetch_command_fails_in_one_line(toy, capsys):
    assert command_line.main(["fetch", "toy"]) == 1
    assert (
        capsys.readouterr().err == "toy has no download; by hand from https://example.org. Ask.\n"
    )
