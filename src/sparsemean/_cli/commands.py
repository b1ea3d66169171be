"""The commands beside those of rows: experiment, demo, plan, reproduce, bench."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsemean._cli.common_options import (
    as_share,
    check_outputs,
    echo,
    jobs,
    level_option,
    print_sentence,
    print_written,
    progressing,
    report,
    share_option,
    waiting,
)
from sparsemean.errors import InputError, MissingExtraError, visible

if TYPE_CHECKING:
    from sparsemean._cli.benchmarks.timing import Row
    from sparsemean._cli.common_options import Progress
    from sparsemean._util.plans import Plan
    from sparsemean.result import Estimate
    from sparsemean.studies.figures import Outcome

SEX_LINKED = ("37583_at", "38355_at", "41214_at", "34477_at", "35885_at", "38446_at")
"""Five probes of genes on the Y chromosome and one of XIST, known from outside the data."""


PAGE = Path("sparsemean-demo.html")
"""The report of the demonstration, in the working directory."""
OURS = b'<meta name="generator" content="sparsemean'
"""What every report has near its beginning."""


def write_page(estimate: Estimate) -> str:
    """Write the report and say where it is; a file of somebody else's stays, and no report is no failure."""
    try:
        if PAGE.exists() and OURS not in PAGE.read_bytes()[:2000]:
            return f"No report was written: {PAGE} is there already, and is no report of ours."
        estimate.report(PAGE, title="Gene expression by recorded sex")
    except (InputError, MissingExtraError, OSError) as error:
        return f"No report was written: {error}"
    return f"Written: {PAGE}, a report to open in a browser."


# ``sparsemean demo``.


@click.command(short_help="Run on the shipped data.")
def demo() -> None:
    """Run on the shipped data: the probes that differ between men and women.

    125 leukaemia patients, 12,625 probes, about six of the patients mislabelled.
    Prints verdict, table and suspects, and writes sparsemean-demo.html here.
    """
    from sparsemean import datasets
    from sparsemean._data import as_table
    from sparsemean._data.table import as_names
    from sparsemean._fit.two_sample import compare
    from sparsemean.result._report.verdict import worst_first
    from sparsemean.result._report.wording import wording_of
    from sparsemean.result.comparison import called, tests_of

    began, data = time.perf_counter(), datasets.load_all_sex()
    table = replace(as_table(data.X, data.features), row_names=as_names(data.samples))
    with progressing("Comparing", quiet=False) as progress:
        (estimate,) = tests_of(called(compare(table, data.y, progress=progress).result, "sample", "probe"))
    report(estimate, "Gene expression (log2), men against women", time.perf_counter() - began)
    echo("")
    print_sentence(worst_first(wording_of(estimate)))
    known = len(set(SEX_LINKED).intersection(estimate.names(estimate.support)))
    print_sentence(
        f"Known from outside the data: {len(SEX_LINKED)} of the probes lie on the Y chromosome or in XIST; {known} of "
        "them are in the table."
    )
    print_sentence(write_page(estimate))


# ``sparsemean experiment``.


def _percents(
    _context: click.Context, parameter: click.Parameter, value: tuple[str, ...] | str | None
) -> dict[str, float] | float | None:
    """Return a lift that is written as a number or in percent; of ``NAME=LIFT`` a dictionary."""

    def lift(written: str) -> float:
        if abs(found := as_share(written, parameter.opts[-1])) > 1 and not written.endswith("%"):
            raise InputError(parameter.opts[-1], "be 0.05 or 5%, say", repr(written), f"is {written}% meant?")
        return found

    if not isinstance(value, tuple):
        return lift(value) if value else None
    pairs = [item.strip().rpartition("=") for each in value for item in each.split(",")]
    return {name: lift(written) for name, _, written in pairs}


def _pairs(_context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return ratios that are written NAME=ABOVE/BELOW."""
    found = {}
    for each in value:
        name, _, parts = each.rpartition("=")
        above, _, below = parts.partition("/")
        if not (above and below):
            raise InputError(parameter.opts[-1], "be NAME=ABOVE/BELOW, such as ctr=clicks/views", repr(each))
        found[name or parts] = above, below
    return found


@click.command("experiment", short_help="The scorecard of an A/B test.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--arm", default="variant", show_default=True, metavar="COLUMN", help="The arm of each user.")
@click.option("--user", metavar="COLUMN", help="The name of each user  [default: user_id, if there is one].")
@click.option("--control", metavar="ARM", help="The arm that others are compared with  [default: told by its name].")
@click.option("--metric", "metrics", multiple=True, metavar="COLUMN", help="Compare this one; repeats  [default: all].")
@click.option("--ratio", "ratios", multiple=True, metavar="NAME=A/B", callback=_pairs, help="Also A/B, of totals.")
@click.option(
    "--pre", default="_pre", show_default=True, metavar="ENDING", callback=lambda *given: tuple(given[-1].split(",")),
    help="Of columns from before (CUPED); _older,_newer: of two stretches.",
)  # fmt: skip
@click.option("--by", metavar="COLUMN", help="Segments, such as the country: lifts within each.")
@click.option("--day", metavar="COLUMN", help="The day of each user: lifts of the primary metrics by day.")
@click.option("--primary", multiple=True, metavar="METRIC", help="Primary metric: it gets 80 % of the level; repeats.")
@click.option(
    "--guardrail", "guardrails", multiple=True, metavar="METRIC=LIFT", callback=_percents,
    help="What must not be harmed, and by how much: latency=+2%, signup=-1%; repeats.",
)  # fmt: skip
@click.option("--min-effect", metavar="LIFT", callback=_percents, help="Within ± so much a metric is flat: 1%.")
@share_option("Share of each arm that certificates assume to be bots; auto: the suspected share.")
@level_option("Probability of any wrong up or down, as 0.05 or 5%.")
@click.option("--keep", multiple=True, type=int, metavar="NUMBER", help="Count this clump as people; may be repeated.")
@click.option(
    "--shares", multiple=True, metavar="ARM=SHARE", callback=_percents,
    help="Planned sizes of the arms: control=50%,new=50%  [default: equal].",
)  # fmt: skip
@click.option("--events", is_flag=True, help="Add up the rows of each user.")
@click.option(
    "--out", multiple=True, type=click.Path(path_type=Path),
    help="Write it to .md (for chats), .json, .csv or .html; repeats allowed.",
)  # fmt: skip
@click.option("--report", "page", type=click.Path(path_type=Path), metavar="FILE.html", help="Write the page.")
@jobs
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def experiment(file: Path, out: tuple[Path, ...], page: Path | None, quiet: bool, **options: object) -> None:
    """Say which metrics of FILE changed between the arms, by how much, and who is a bot.

    FILE has a row for each user, with the arm and any number of metrics: .csv,
    .parquet, .xlsx or .duckdb. Text is set aside, gaps are left out, and users who
    look like bots too; verdicts that hold whatever those did are certified.
    """
    from sparsemean.experiments import analyze
    from sparsemean.experiments._scorecard import check_card

    named = [*(("--out", path) for path in out), ("--report", page)]
    targets = check_outputs(named, [file], check=check_card)
    title = file.name
    with waiting(f"Analyzing {title}", quiet):
        options |= {name: options[name] or None for name in ("metrics", "shares")}
        card = analyze(file, **options)  # type: ignore[arg-type]
    for _, target in targets:
        card.write(target, title=title)
    if not quiet:
        echo(str(card))
        print_written(*(target for _, target in targets))


# ``sparsemean plan``.


@click.command("plan", short_help="What a number of rows and columns can show.")
@click.argument("numbers", type=int, nargs=-1, metavar="[N] D")
@click.option("--lift", callback=_percents, metavar="LIFT", help="An experiment: the lift that is to be found, 4%.")
@click.option("--baseline", callback=_percents, metavar="SHARE", help="With --lift: the conversion of the control, 5%.")
@click.option("--metric-file", type=click.Path(path_type=Path), help="With --lift: users of another month, by metric.")
@click.option("--per-day", type=int, help="With --lift: users that enter the experiment each day.")
@click.option("--arms", type=int, default=2, show_default=True, help="With --lift: the control and its treatments.")
@click.option("--metrics", type=int, default=1, show_default=True, help="With --lift: metrics that share the level.")
@click.option(
    "--two-groups", type=int, nargs=2, metavar="N0 N1", help="Rows of a reference and of a label; then N is left out."
)
@share_option(
    "Share of bad rows, of each group with --two-groups; 0.05,0.1: of each its own.", "FLOAT", None, "0, 1 and 5 %"
)
@level_option("Family-wise error rate, as 0.05 or 5%.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability of finding an effect.")
@click.option("--effect", type=float, default=None, help="A mean, in standard deviations: how many rows does it need?")
@click.option("--test", default="auto", show_default=True, help="ranks, buckets, or auto: ranks up to 20,000 rows.")
@click.option("--target", default="centre", show_default=True, help="centre, or mean: whatever the skew.")
@click.option("--alternative", default="two-sided", show_default=True, help="two-sided, greater or less.")
@click.option(
    "--min-effect", type=float, default=0.0, show_default=True,
    help="What a mean must exceed, in standard deviations; effects are beyond it.",
)  # fmt: skip
def plan_command(
    numbers: tuple[int, ...], two_groups: tuple[int, int] | None, lift: float | None, **options: Any
) -> None:
    """Say what N rows of D features can show, before any data are seen.

    Of an experiment, say how many users show a lift: --baseline 5% --lift 4%
    --per-day 3000, or --metric-file FILE in place of the baseline.
    """
    from sparsemean._fit.power import plan
    from sparsemean.result._report.summary import TextTable, aligned

    asked = {name: options.pop(name) for name in ("baseline", "metric_file", "per_day", "arms", "metrics")}
    if lift:
        if numbers or two_groups or (asked["baseline"] is None) == (asked["metric_file"] is None):
            raise InputError("--lift", "come with one of --baseline and --metric-file, and no numbers", lift)
        _plan_experiment(lift, level=options["level"], power=options["power"], **asked)
        return
    wanted = "D alone" if two_groups else "N and D"
    if len(numbers) != (1 if two_groups else 2):
        advice = "--two-groups N0 N1 has the rows" if two_groups else "or give --two-groups N0 N1 and D"
        raise InputError("numbers", f"be {wanted}", " ".join(map(str, numbers)), advice)
    shares = USUAL_SHARES if options["contamination"] is None else (options["contamination"],)
    plans = list(_possible(partial(plan, two_groups or numbers[0], numbers[-1]), shares, options))
    made = plans[-1]
    if len(shares) > 1:
        print_sentence(_if_bad(plans, shares, "a shift" if two_groups else "a mean", options["power"]))
        echo("")
    if two_groups:
        print_sentence(made.summary())
        return
    assert made.outlook is not None
    forms = [".3g" if isinstance(value, float) else "," for value in made.outlook.table[0].values()]
    rows = [tuple(map(format, row.values(), forms)) for row in made.outlook.table]
    headings = tuple(COLUMNS[name] for name in made.outlook.table[0])
    print_sentence(made.summary())
    echo("\n" + "\n".join(aligned(TextTable(headings, rows))))


def _plan_experiment(
    lift: float, *, baseline: float | None, metric_file: Path | None, per_day: int | None, arms: int, metrics: int,
    level: float, power: float,
) -> None:  # fmt: skip
    """Print how many users, and days, show a lift of each metric if no user is a bot, and if some are."""
    from sparsemean._data import open_file
    from sparsemean._data.table import ReadOptions
    from sparsemean._fit.arms import Metric, users_to_find
    from sparsemean.result._report.summary import TextTable, aligned

    if baseline is not None:
        if not 0 < baseline < min(1.0, 1 / (1 + lift)):
            rule = "be a share of users between 0 and 1, after the lift too"
            raise InputError("--baseline", rule, f"{baseline:g} with a lift of {lift:g}")
        found = {"conversion": Metric.of_share(baseline, lift)}
    else:
        assert metric_file is not None
        table = open_file(metric_file, ReadOptions(drop_text=True, drop_empty=True))
        names = range(table.shape[1]) if table.feature_names is None else table.feature_names
        found = {str(n): Metric.of_values(x, lift) for n, x in zip(names, table.values.T, strict=True)}
    if arms < 2 or metrics < 1 or (per_day or 1) < 1:
        raise InputError("--lift", "come with two arms, a metric and a user a day, or more", (arms, metrics, per_day))
    error, rows = level / (metrics * (arms - 1)), []
    for name, metric in found.items():
        needed = [users_to_find(metric, share, error=error, power=power) for share in USUAL_SHARES]
        cells = ["none" if n == float("inf") else f"{n:,.0f}" for n in needed]
        if per_day:
            cells.append(f"{max(1, -(-needed[0] * arms // per_day)):,.0f}" if needed[0] < float("inf") else "–")
        rows.append((name, *cells))
    headings = ("users an arm", "no bots", *(f"certified at {share:.0%}" for share in USUAL_SHARES[1:]))
    days = ("days, no bots",) if per_day else ()
    echo("\n".join(aligned(TextTable((*headings, *days), rows))) + "\n")
    shared = f"; {metrics} metrics share the level" if metrics > 1 else ""
    print_sentence(
        f"With that many users in each of {arms} arms a lift of {100 * lift:.3g} % is found with {power:.0%} "
        f"probability{shared}. Certified at 1%: found whatever 1 % of each arm do, if they are bots."
    )
    if any("none" in row for row in rows):
        print_sentence(
            "none: no number of users is enough, as bots could move the metric by more than the lift (a conversion by "
            "2 points for each percent of bots). Plan without certificates, or for a larger lift."
        )


USUAL_SHARES = (0.0, 0.01, 0.05)
"""Of bad rows, that a plan is made for where nobody names one."""


def _possible(plan: Callable[..., Plan], shares: Sequence[Any], options: dict[str, object]) -> Iterator[Plan]:
    """Yield the plans for shares of bad rows, as long as anything can be found; at least one."""
    for k, share in enumerate(shares):
        try:
            yield plan(**{**options, "contamination": share})
        except InputError as error:
            if k == 0 or error.argument != "contamination":
                raise
            return


def _if_bad(plans: Sequence[Plan], shares: Sequence[float], what: str, power: object) -> str:
    """Say what is found if no row is bad, and for each share that may be."""
    who = [f"{share:.0%} of the rows are bad" if share else "no row is bad" for share in shares]
    first, *more = (f"{each.detectable_effect:.3g}" for each in plans)
    found = "".join(f" If {bad}: {effect}." for effect, bad in zip(more, who[1:], strict=False))
    none = "".join(f" If {bad}: nothing can be found." for bad in who[len(plans) :])
    return f"If {who[0]}, {what} of {first} standard deviations is found with probability {power}.{found}{none}"


COLUMNS = {
    "size": "bucket of",
    "buckets": "buckets",
    "majority": "majority needed",
    "cap": "ranks up to",
    "largest": "largest sum",
    "sum": "sum needed",
    "half_width": "half of an interval (σ)",
    "effect": "detectable mean (σ)",
    "effect_opposed": "if opposed",
}
"""What is written above each column of the table of a plan."""


# ``sparsemean bench``.


@click.command(short_help="Measure speed and memory.")
@click.argument("names", nargs=-1)
@click.option("--quick", is_flag=True, help="Smaller problems, less than a minute in all.")
@click.option("--repeat", type=click.IntRange(min=1), default=7, show_default=True, help="Best of this many.")
@click.option("--list", "listing", is_flag=True, help="List the benchmarks and stop.")
def bench(names: tuple[str, ...], quick: bool, repeat: int, listing: bool) -> None:
    """Measure speed and memory as ratios taken in one run, best of several."""
    from sparsemean._cli import benchmarks

    if listing:
        echo("\n".join(benchmarks.available()))
        return
    from sparsemean._kernels.compiling import end_plainness

    end_plainness()  # what is repeated, best of several, is what is compiled
    rows = benchmarks.run(list(names) or None, quick=quick, repeat=repeat, on_row=lambda row: echo(bench_line(row)))
    missed = sum(row.met is False for row in rows)
    echo(f"{len(rows)} rows, {missed} outside their bar")


def bench_line(row: Row) -> str:
    """Return a row as it is printed."""
    mark = {True: "ok  ", False: "MISS", None: "    "}[row.met]
    aim = f" (bar {row.bar_text})" if row.met is not None else ""
    line = f"{mark} {row.value:8.3g} {row.unit:<2} {row.name}"
    return line + (f"\n{'':17}{row.detail}{aim}" if row.detail or aim else "")


# ``sparsemean reproduce``.


@click.command(short_help="Make the figures of the paper again.")
@click.argument("figures", nargs=-1)
@click.option("--trials", type=int, default=None, help="Data sets a point  [default: the published number].")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder.")
@click.option("--quick", is_flag=True, help="A coarse grid and two trials: minutes, a look and no reproduction.")
@click.option("--jobs", type=int, default=None, help="Processes [default: all cores].")
@click.option("--seed", type=int, default=0, show_default=True, help="What the seeds of all trials are made from.")
@click.option("--list", "listing", is_flag=True, help="List the figures and stop.")
def reproduce(figures: tuple[str, ...], out: Path, listing: bool, jobs: int | None, **options: Any) -> None:
    """Make the FIGURES of the paper again, all if none is named.

    Published points stand beside ours, and one page collects everything. A run
    that is stopped goes on where it was: finished trials are kept.
    """
    from sparsemean.studies import figures as paper
    from sparsemean.studies.reproduce import reproduce as make_figures

    if listing:
        echo("\n".join(f"{name:<22} {paper.find(name).title}" for name in paper.available()))
        return
    try:
        with progressing("Trials of a figure", quiet=False) as show:
            progress = None if show is None else lambda done, total: show(done / total)
            chosen = paper.Options(out, n_jobs=jobs, progress=progress, **options)
            report = make_figures(figures, chosen, made=partial(_print_figure, show))
    except KeyboardInterrupt:
        kept = f"interrupted; finished trials are kept in {out}: the same command goes on from there"
        raise click.Abort(kept) from None
    for sentence in report.left_out:
        echo(visible(sentence))
    echo(f"{visible(report.page)}: {report.summary.sentence()}")


def _print_figure(show: Progress | None, outcome: Outcome, seconds: float) -> None:
    """Say what became of a figure, on a line of its own."""
    from sparsemean.studies.published import summarise

    if show is not None:
        echo("", err=True)
    compared = "" if outcome.agreement is None else f"  {summarise(outcome.agreement).sentence()}"
    echo(f"{outcome.name:<22}{seconds:7.1f} s{compared}")
    if outcome.text:
        echo(f"\n{outcome.text}")
    for note in outcome.notes:
        echo(click.wrap_text(note, 80, "  ", "  "))
