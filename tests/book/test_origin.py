"""A run is current while what its numbers come from is as it was, and no longer."""

import time

import pytest
from acvbook import origin, whole
from acvbook.datasets import registry

NOTEBOOK = """# %% tags=["parameters"]
scale = "quick"

# %% [markdown]
# A sentence.

# %%
print(scale)
"""
FUNCTION = '''
def half(x):
    """Halve x."""
    if x < 0:
        raise ValueError(f"x = {x} is negative")
    warnings.warn("halved", stacklevel=2)
    return x / 2
'''
SAME = [
    ('"""Halve x."""', '"""Return half of x."""'),
    ('    """Halve x."""\n', ""),
    (" is negative", " must not be negative: {type(x)}"),
    ("halved", "in two"),
    ("    return", "    # two parts\n    return"),
    ("x / 2", "(x\n        / 2)"),
]
OTHER = [
    ("acvlib/halves.py", "x / 2", "x / 3"),
    ("acvlib/halves.py", "x < 0", "x <= 0"),
    ("acvlib/halves.py", "ValueError", "TypeError"),
    ("notebook.py", "print(scale)", "print(1)"),
    ("notebook.py", "print(scale)", "scale\n\n# %%\nscale"),  # parted
]
KNOWN = registry.get("dodgers").files["dodgers_counts.csv"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A project of one notebook, one module and one data file."""
    files = {"notebook.py": NOTEBOOK, "acvlib/halves.py": FUNCTION}
    files["acvlib/__init__.py"] = '__version__ = "1"'
    files["requirements.lock"] = "numpy==1.0\nscikit_learn==2.0\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(origin, "_FOLDERS", {"acvlib": tmp_path / "acvlib"})
    monkeypatch.setattr(origin, "ROOT", tmp_path)
    monkeypatch.setattr(origin, "code_of", origin.code_of.__wrapped__)
    monkeypatch.setattr(registry, "sha256_here", lambda name, file: "here")
    return tmp_path


def run(place, started=None, **seen):
    """The origin of a run that began when the files had been there for a second."""
    seen = {"modules": ["acvlib", "acvlib.halves"], "packages": {"numpy": "1.0"}, "data": {}} | seen
    return origin.origin(place / "notebook.py", seen, started or time.time() + 1, "abc")


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(("old", "new"), SAME)
def test_words_are_no_part_of_an_origin(place, old, new):
    record = run(place)
    edit(place / "acvlib/halves.py", old, new)
    edit(place / "notebook.py", "A sentence", "Another")
    edit(place / "acvlib/__init__.py", "1", "2")
    (place / "acvlib/never_imported.py").write_text("x = 1")
    assert origin.changes(record, place / "notebook.py") == []


@pytest.mark.parametrize(("file", "old", "new"), OTHER)
def test_code_is(place, file, old, new):
    record = run(place)
    edit(place / file, old, new)
    changed = "its code" if file == "notebook.py" else "acvlib.halves"
    assert origin.changes(record, place / "notebook.py") == [changed]


def test_a_module_that_is_gone_a_package_of_another_version_and_an_edit_while_it_ran_are(place):
    record = run(place, started=time.time() - 60)
    assert origin.changes(record, place / "notebook.py") == ["its code", "acvlib", "acvlib.halves"]
    record = run(place)
    (place / "acvlib/halves.py").unlink()
    edit(place / "requirements.lock", "numpy==1.0", "numpy==1.1")
    edit(place / "requirements.lock", "scikit_learn==2.0", "scikit_learn==2.1")
    assert origin.changes(record, place / "notebook.py") == ["acvlib.halves", "numpy"]


@pytest.mark.parametrize(
    ("sha256", "here", "in_registry"),
    [("here", True, False), (None, False, True), ("gone", False, False), (KNOWN, False, True)],
    ids=["as on this machine", "stand-in", "neither", "as in the registry"],
)
def test_data_are_those_of_this_machine_or_of_the_registry(place, sha256, here, in_registry):
    record = run(place, data={"dodgers/dodgers_counts.csv": sha256})
    for expected, on_this_machine in ((here, True), (in_registry, False)):
        found = origin.changes(record, place / "notebook.py", here=on_this_machine)
        assert found == ([] if expected else ["dodgers/dodgers_counts.csv"])


def test_a_run_says_when_it_was_what_changed_and_what_it_has_imported_and_read():
    run = {"day": "2026-11-26", "commit": "abc"}
    assert origin.in_words(run, []) == "2026-11-26, commit `abc`; current"
    assert origin.in_words(run, list("abcde")).endswith("changed since: a, b, c, 2 more")
    assert origin.in_words({}, []) == ""
    seen = origin.seen()
    assert "acvbook.origin" in seen["modules"]
    assert "numpy" in seen["packages"]
    assert seen["data"] is registry.looked_for


def test_a_file_or_run_is_delivered_whole_and_takes_the_place_of_the_one_before(tmp_path):
    whole.write(tmp_path / "a", "old")
    with pytest.raises(TypeError):
        whole.write(tmp_path / "a", 3)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    for number, files in enumerate((["figures/a", "figures/b"], ["figures/b"])):
        for file in files:
            whole.write(tmp_path / "staging" / file, str(number))
        origin.deliver(tmp_path / "staging", tmp_path, "one", {"day": number})
        assert origin.run_of("one", tmp_path) == {"day": number, "files": files}
        assert sorted(f"figures/{p.name}" for p in tmp_path.glob("figures/*")) == files
