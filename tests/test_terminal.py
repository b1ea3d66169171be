"""What reaches a terminal: names as they are, in any encoding, and no fit fails because nobody reads on."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsemean.baselines import BaselineWarning
from sparsemean.errors import visible

from command import expect as run

NAMES = ["rs123:A:G", "[red]a[/red]", "β-actin …", "\x1b[31mred\x1b[0m\x07", "a\u202eb", "line\nbreak\ttab", "名前"]
CODE = "import sys; from sparsemean._cli import main; main(sys.argv[1:])"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).standard_normal((80, 9)) + np.r_[5 * np.ones(7), 0, 0]
    pd.DataFrame(X, columns=[*NAMES, "x", "y"]).to_parquet(tmp_path / "x.parquet")
    return tmp_path / "x.parquet"


def fit(file: Path, *arguments: str | Path, shell: str = "") -> subprocess.CompletedProcess[bytes]:
    """Fit in a process of its own; ``shell`` comes after the command."""
    command = [sys.executable, "-c", CODE, "fit", str(file), "--seed", "0", *map(str, arguments)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    line = ["bash", "-o", "pipefail", "-c", f'"$@" {shell}', "bash", *command]
    return subprocess.run(line, env=environment, capture_output=True, check=False, timeout=60)


def test_names_are_printed_as_they_are_with_controls_visible(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fit", file, "--seed", "0")
    out = capsys.readouterr().out
    shown = [
        "rs123:A:G",
        "[red]a[/red]",
        "β-actin …",
        r"\x1b[31mred\x1b[0m\x07",
        r"a\u202eb",
        r"line\nbreak\ttab",
        "名前",
    ]
    assert [name for name in shown if name not in out] == []
    assert not any(sign in out for sign in "\x1b\x07\u202e\t")


def test_controls_in_an_error_are_visible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fit", tmp_path / "x.npy", "--frob\x1b[2Jnicate", status=2)
    assert r"\x1b[2J" in capsys.readouterr().err


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x7f", "\x9b", "\u200b", "\u2028", "\u2066", "\ufeff"])
def test_every_kind_of_control_is_visible(character: str) -> None:
    assert visible(f"a{character}b").isprintable()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_an_encoding_lacks_is_spelt_out(file: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, encoding=encoding))
    run("fit", file, "--seed", "0")
    out = printed.getvalue().decode(encoding)
    assert "x.parquet: 80 rows x 9" in out.replace("×", "x")
    assert r"\u540d\u524d" in out
    assert "beta-actin ..." in out.replace("…", "...")


def test_json_stays_json_in_any_encoding(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, encoding="ascii"))
    run("fit", file, "--seed", "0", "--json")
    assert {row["feature"] for row in json.loads(printed.getvalue())["selected"]} == set(NAMES)


@pytest.mark.parametrize(
    "arguments", ["--help", "--version", "fit --help", "bench --list", "reproduce --list", "plan 200 20", "fit {file}"]
)
def test_nobody_need_read_to_the_end(arguments: str, file: Path) -> None:
    command = [sys.executable, "-m", "sparsemean", *arguments.format(file=file).split()]
    line = ["bash", "-o", "pipefail", "-c", '"$@" | true', "bash", *command]
    done = subprocess.run(line, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


UP = """
import signal, sparsemean.__main__
plain = signal.signal
def told(*handler):
    signal.signal = plain
    plain(*handler)
    print(flush=True)
signal.signal = told
sparsemean.__main__.main()
"""
"""The command, which writes an empty line once Ctrl-C is its own: before that nobody but Python can do anything."""
LINE = "sparsemean: interrupted; no file was changed\n"


@pytest.mark.parametrize("what", ["fit", "help"])
def test_an_interrupt_is_one_line_from_the_first_moment_on(what: str, file: Path, long_version: bool) -> None:
    arguments, longest = (["fit", str(file)], 1.0) if what == "fit" else (["--help"], 0.15)
    command = [sys.executable, "-c", UP, *arguments]
    for wait in np.linspace(0, longest, 100 if long_version else 5):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        whole = "for the fit." in out if what == "fit" else "sketch " in out
        assert (process.returncode, err) in ([(0, "")] if whole else []) + [(130, LINE)], wait


def test_an_interrupt_of_text_that_is_run_is_a_status_too(tmp_path: Path) -> None:
    """As named tuples and data classes are made: Python, run with -m, would end itself by the signal."""
    interrupting = "__import__('signal').raise_signal(2)"
    patched = f"import sparsemean._fit.power as p; p.plan = lambda *_, **__: exec({interrupting!r})"
    (tmp_path / "patched.py").write_text(f"{patched}\nfrom sparsemean._cli import main\nmain()", encoding="utf-8")
    command = [sys.executable, "-m", "patched", "plan", "200", "20"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # who runs tests may ignore it
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, LINE)


def swallowed() -> None:
    """As modules written in C swallow what is raised while they are imported."""
    with contextlib.suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def in_a_destructor() -> None:
    class Old:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    Old()


def as_another_error() -> None:
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise SystemError("returned a result with an exception set") from None


@pytest.mark.parametrize("interrupted", [swallowed, in_a_destructor, as_another_error])
def test_an_interrupt_that_gets_lost_is_sent_again(
    interrupted: Callable[[], None], file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fit(*_: object, **__: object) -> None:
        interrupted()
        time.sleep(20)

    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs tests may ignore it
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr("sparsemean._fit.one_sample.fit", fit)
    try:
        run("fit", file, status=130)
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)) == before
    finally:
        signal.signal(signal.SIGINT, inherited)
    assert capsys.readouterr().err == LINE


@pytest.mark.parametrize("shell", ["2>&-", "<&- >&-", "2>&1 | true"])
def test_a_closed_stream_does_not_undo_a_fit(file: Path, tmp_path: Path, shell: str) -> None:
    target = tmp_path / "out.csv"
    done = fit(file, "--out", target, shell=shell)
    assert (done.returncode, done.stderr) == (0, b"")
    assert set(pd.read_csv(target)["feature"]) == set(map(visible, NAMES))


def test_a_warning_of_ours_is_one_line_and_none_where_quiet(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def warned(*_: object, **__: object) -> list[tuple[str, Path]]:
        warnings.warn("two\nlines", BaselineWarning, stacklevel=1)
        warnings.warn("NumPy's own", RuntimeWarning, stacklevel=1)
        warnings.warn("in pandas 4", FutureWarning, stacklevel=1)
        warnings.warn("a library's", UserWarning, stacklevel=1)
        return []

    monkeypatch.setattr("sparsemean._cli.common_options.check_outputs", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        run("fit", file, "--seed", "0", "--json")
        assert capsys.readouterr().err == "sparsemean: note: two lines\n"
        run("fit", file, "--seed", "0", "-q")
    assert capsys.readouterr().err == ""


def no_thread() -> None:
    raise RuntimeError("can't start new thread")


def no_library() -> None:
    try:
        raise OSError("libllvmlite.so: failed to map segment from shared object")
    except OSError as error:
        raise OSError("Could not find/load shared object file 'libllvmlite.so'") from error


def no_room() -> None:
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


def no_room_for_arrow() -> None:
    import pyarrow as pa

    raise pa.ArrowMemoryError("malloc of size 8000000 failed")


@pytest.mark.parametrize(
    "fail", [no_thread, no_library, no_room, no_room_for_arrow, lambda: np.empty(2**55), lambda: bytearray(2**60)]
)
def test_a_lack_of_memory_is_one_line_that_says_so(
    fail: Callable[[], None], file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sparsemean._fit.one_sample.fit", lambda *_, **__: fail())
    run("fit", file, status=1)
    err = capsys.readouterr().err
    assert err.startswith("sparsemean: memory ran out (")
    assert err.endswith(
        "); raise the limit (ulimit -v), use fewer threads (--jobs 1) or look at fewer columns (--select)\n"
    )


def test_a_lack_of_memory_is_told_apart_from_a_damaged_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pyarrow.parquet.ParquetFile", lambda *_, **__: no_thread())
    run("fit", file, status=2)
    said = "sparsemean: FILE must have pieces that fit into memory: got x.parquet (can't start new thread); raise the"
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of other systems differ")
@pytest.mark.parametrize("limit", [300_000, 400_000, 750_000])
def test_under_a_limit_of_memory(tmp_path: Path, limit: int) -> None:
    np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype="f8", shape=(5000, 20_000))[:1] = 1.0
    command = f"ulimit -v {limit}; exec '{sys.executable}' -m sparsemean fit '{tmp_path / 'x.npy'}'"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    *others, ours = done.stderr.splitlines()
    assert done.returncode in (1, 2)
    assert ours.startswith("sparsemean: ")
    assert "memory" in ours
    assert "raise the limit (ulimit -v)" in ours
    ended = "a library ended the process" in ours  # it may have said why, on a line of its own
    assert len(others) <= ended
    assert not any(line.startswith(("sparsemean", "Traceback")) for line in others)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of other systems differ")
def test_libraries_that_need_more_memory_are_not_waited_for(file: Path) -> None:
    """With less some ask for ever, deaf to signals; with so much a small table is read."""
    least = 1000
    command = [sys.executable, "-m", "sparsemean", "fit", file.with_name("x.parquet"), "-q"]
    for limit in (least * 10**6 - 1024, least * 10**6 + 1024):
        limited = ["bash", "-c", f'ulimit -v {limit // 1024}; exec "$@"', "bash", *command]
        done = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=60)
        said = f"sparsemean: memory must be at least {least} MB: got {least - 1} MB; raise the limit (ulimit -v)\n"
        assert (done.returncode, done.stderr) == ((1, said) if limit < least * 10**6 else (0, ""))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of other systems differ")
def test_a_fault_of_a_library_is_a_line_where_memory_is_limited(file: Path) -> None:
    """Those that do not look whether they got memory; without a limit it is a fault like any other, and stays one."""
    patched = "import os, sparsemean._fit.one_sample as f; f.fit = lambda *_, **__: os.kill(os.getpid(), 11)"
    command = [sys.executable, "-c", f"{patched}; from sparsemean._cli import main; main()", "fit", file]
    for limit, status in (("4000000", 1), ("unlimited", -signal.SIGSEGV)):
        limited = ["bash", "-c", f'ulimit -c 0; ulimit -v {limit}; exec "$@"', "bash", *command]
        done = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == status
        assert done.stderr.startswith("sparsemean: a library ended the process, often because memory") == (status == 1)


def test_a_library_that_ends_the_process_is_a_line(file: Path) -> None:
    """As C++ does where memory runs out, among others; what it says itself cannot be kept back."""
    patched = "import os, sparsemean._fit.one_sample as f; f.fit = lambda *_, **__: os.abort()"
    code = f"{patched}; from sparsemean._cli import main; main()"
    command = [sys.executable, "-c", code, "fit", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("sparsemean: a library ended the process, often because memory ran out: raise the")
    assert done.stderr.count("\n") == 1
    no_core = ["bash", "-c", 'ulimit -c 0; exec "$@"', "bash", *command]
    debugged = {**os.environ, "SPARSEMEAN_DEBUG": "1"}
    done = subprocess.run(no_core, capture_output=True, text=True, check=False, timeout=60, env=debugged)
    assert done.returncode == -signal.SIGABRT
    assert "sparsemean:" not in done.stderr
