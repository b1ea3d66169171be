"""Errors that would hurt, put into a copy of the package one at a time: the test file named for each must fail.

Run by ``make mutate``; arguments are parts of the names of those to run. A mutation is told by text, or a pattern, that
stands exactly once in its file or files; where these were changed so that it no longer does, that is a failure too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
AT_ONCE = 2
FAILED = 1
"""What pytest returns where tests failed; anything else but 0 says that it could not run them."""


class Mutation(NamedTuple):
    """What goes wrong, where (a file, or a pattern of files), and which test file must notice."""

    name: str
    file: str
    old: str | re.Pattern[str]
    new: str
    killed_by: str

    def place(self, package: Path) -> tuple[Path, str]:
        """Return the one file to be changed and its text afterwards."""
        pattern = re.compile(re.escape(self.old)) if isinstance(self.old, str) else self.old
        new = self.new.replace("\\", r"\\") if isinstance(self.old, str) else self.new
        places = []
        for path in sorted(package.glob(self.file)):
            text, times = pattern.subn(new, path.read_text(encoding="utf-8"))
            places += [(path, text)] * times
        if len(places) != 1:
            raise LookupError(f"{pattern.pattern} stands {len(places)} times in {self.file}")
        return places[0]


MUTATIONS = [
    Mutation("small samples: one stratum stands for all", "_stats/power.py",
             "for a, b in self.strata or [self.sizes]", "for a, b in [self.sizes]",
             "tests/test_small_samples.py"),
    Mutation("small samples: Holm's threshold for every rule", "_stats/power.py",
             "self.plan.question.level, d).next_error(None, d)", "self.plan.question.level, d).next_error(1, d)",
             "tests/test_small_samples.py"),
    Mutation("entry: u² starts at α", "studies/figures/entry.py",
             "math.log(mean / alpha**2)", "math.log(mean / alpha)",
             "tests/studies/test_entry.py"),
    Mutation("maxt: bad rows ask nothing of Holm", "_stats/decision.py",
             "xp.maximum(first, values[1]) if any(bad.total for bad in allowed) else first", "first",
             "tests/test_maxt.py"),
    Mutation("maxt: the labels of all rows are permuted", "_fit/two_sample.py",
             "rows = np.flatnonzero(sides != ELSEWHERE)", "rows = np.arange(sides.size)",
             "tests/test_maxt.py"),
    Mutation("maxt: a weaker feature may have a smaller p", "_stats/maxt.py",
             "np.maximum.accumulate(p[strongest])", "p[strongest]",
             "tests/test_maxt.py"),
    Mutation("maxt: rows that look bad follow from the rule", "_fit/screening.py",
             "adjusted_by_holm(decision) if isinstance(decision.rule, MaxT) else decision.p_adjusted",
             "decision.p_adjusted",
             "tests/test_maxt.py"),
    Mutation("without suspects: one of them stays", "_fit/afterwards.py",
             "np.arange(table.shape[0]), suspects)", "np.arange(table.shape[0]), suspects[1:])",
             "tests/test_without_suspects.py"),
    Mutation("unnamed rows: not allowed for", "_fit/pipeline.py",
             "min(seen.aligned + seen.unnamed, ", "min(seen.aligned, ",
             "tests/test_unnamed_rows.py"),
    Mutation("unnamed rows: the lower tail counts as well", "_stats/row_scores.py",
             "np.cumsum(np.sign(away[farthest]))", "np.cumsum(np.abs(np.sign(away[farthest])))",
             "tests/test_unnamed_rows.py"),
    Mutation("intervals: five times the error", "_stats/decision.py",
             "question.level * n_selected / plan.n_hypotheses", "question.level * 5 * n_selected / plan.n_hypotheses",
             "tests/test_intervals.py"),
    Mutation("intervals between groups: five times the error", "_fit/two_sample.py",
             "error, blocks = error_after_selection(", "error, blocks = 5 * error_after_selection(",
             "tests/test_intervals.py"),
    Mutation("differences of shares: the odds have the whole error, and half as much again", "_stats/effects.py",
             "OF_ODDS, OF_SHARE = 0.9,", "OF_ODDS, OF_SHARE = 1.6,",
             "tests/validity/test_differences_of_shares.py"),
    Mutation("differences of shares: bad rows of the reference are not allowed for", "_stats/effects.py",
             "min(n2, a2 + bad.reference), OF_ODDS", "a2, OF_ODDS",
             "tests/validity/test_differences_of_shares.py"),
    Mutation("shares of pairs: bad rows touch none", "_evidence/groups.py",
             "lost / total, moved / total", "lost / total, 0.0",
             "tests/validity/test_differences_of_shares.py"),
    Mutation("shares of pairs: shown where there is a shift", "_evidence/groups.py",
             "flat = value == 0 or", "flat = value != 0 or",
             "tests/test_conversions.py"),
    Mutation("intervals: sizes do not share the error", "_evidence/signs.py",
             "error=error / len(levels)", "error=error",
             "tests/test_intervals.py"),
    Mutation("intervals: bad rows are not allowed for", "_evidence/signs.py",
             "order_statistic(J, error) - bad_rows", "order_statistic(J, error)",
             "tests/test_intervals.py"),
    Mutation("tails of ranks: characteristic functions end at a hundredth", "_stats/signed_ranks.py",
             "LEFT_OUT = 46.0", "LEFT_OUT = 4.6",
             "tests/test_tails.py"),
    Mutation("tails of ranks: values beyond the cap count once", "_stats/signed_ranks.py",
             "(self.numbers - within) * terms[-1]", "(self.numbers > within) * terms[-1]",
             "tests/test_tails.py"),
    Mutation("tails of strata: over before lumps fall together again", "_kernels/rank_transforms.py",
             "        j += LANES\n    return total",
             "        j += LANES\n        if np.abs(lanes[:4]).max() < 1e-8:\n            break\n    return total",
             "tests/test_tails.py"),
    Mutation("tails of strata: a tilt that is far off will do", "_kernels/rank_transforms.py",
             "        if near:", "        if near or width < 1e-3:",
             "tests/test_tails.py"),
    Mutation("tails of strata: a few angles of large ones", "_kernels/rank_transforms.py",
             "max(FEWEST, WORK // values)", "max(1, WORK // values)",
             "tests/test_tails.py"),
    Mutation("tails of strata: angles that end without a function above", "_kernels/rank_transforms.py",
             "return (1.0 - share) * u - slope * v, (1.0 - share) * v - slope * (at_zero - u)", "return u, v",
             "tests/test_tails.py"),
    Mutation("tails of groups: a transform dies away forty times as fast", "_kernels/rank_transforms.py",
             "best = min(best, -chance - share * (length - min(kernel, float(length))))",
             "best = min(best, -40.0 * share * (length - min(kernel, float(length))))",
             "tests/test_tails.py"),
    Mutation("tails of distinct ranks: a transform dies away four times as fast", "_stats/group_ranks.py",
             "return min(0.0, -self.log_chance - max(", "return min(0.0, -4 * max(",
             "tests/test_tails.py"),
    Mutation("tails of lumps: the bound is of half of the variance", "_kernels/rank_tails.py",
             "deviation, x = math.sqrt(a * float(b) * (A + 1.0) / 3.0)",
             "deviation, x = math.sqrt(a * float(b) * (A + 1.0) / 6.0)",
             "tests/test_nulls.py"),
    Mutation("shift between groups: reference less label", "_evidence/groups.py",
             "np.sort(dropna(values[first])), np.sort(dropna(values[second]))",
             "np.sort(dropna(values[second])), np.sort(dropna(values[first]))",
             "tests/test_comparing.py"),
    Mutation("screening: size says something from 31 columns on", "_stats/row_scores.py",
             "FOR_SIZE = 30", "FOR_SIZE = 31",
             "tests/test_rows.py"),
    Mutation("screening: the limit is half a deviation further", "_stats/row_scores.py",
             "math.sqrt(2 * math.log(n)) + 1", "math.sqrt(2 * math.log(n)) + 1.5",
             "tests/test_rows.py"),
    Mutation("screening: rejected rows keep their weight", "_stats/row_scores.py",
             "weights[suspects] = 0.0", "weights[suspects] = 1.0",
             "tests/test_rows.py"),
    Mutation("screening: two rows are copies of each other", "_stats/row_scores.py",
             "near[1:] & near[:-1]", "near[1:] | near[:-1]",
             "tests/test_rows.py"),
    Mutation("screening: each column has its own tail only", "_stats/row_scores.py",
             "SHARED = 6.0", "SHARED = 0.0",
             "tests/test_rows.py"),
    Mutation("screening: scales by a sample of rows in their order", "_stats/arrays.py",
             "ALL_VALUES = 4_000_000", "ALL_VALUES = 4_000",
             "tests/test_rows.py"),
    Mutation("bad rows: rounded down", "_stats/planning.py",
             "math.ceil(contamination * n - 1e-9)", "math.floor(contamination * n + 1e-9)",
             "tests/test_planning.py"),
    Mutation("bad rows: of rows where subjects count", "_stats/planning.py",
             "else bad_rows(units, epsilon)", "else bad_rows(n, epsilon)",
             "tests/test_planning.py"),
    Mutation("Holm: every step is the first", "_stats/decision.py",
             "np.asarray(self.level / (total - rejected + 1))", "np.asarray(self.level / (total + 0 * rejected))",
             "tests/test_selection.py"),
    Mutation("Holm: thresholds run one step ahead", "_stats/decision.py",
             "sure[column] + rank + 1, total)", "sure[column] + rank + 2, total)",
             "tests/test_selection.py"),
    Mutation("Holm: adjusted values are one step ahead", "_stats/decision.py",
             "(total + count - last) * value", "(total + count - last - 1) * value",
             "tests/test_selection.py"),
    Mutation("Benjamini and Yekutieli without the harmonic factor", "_stats/decision.py",
             "harmonic(total) if selection", "1.0 if selection",
             "tests/test_selection.py"),
    Mutation("sizes are combined without Bonferroni", "_evidence/signs.py",
             ".min(axis=0), self.factor(len(indices)))", ".min(axis=0), 1.0)",
             "tests/test_selection.py"),
    Mutation("radius: one row too many", "_stats/decision.py",
             "out = xp.ones(self.p_values.size, dtype=np.intp)", "out = 2 * xp.ones(self.p_values.size, dtype=np.intp)",
             "tests/test_selection.py"),
    Mutation("ranks: bad rows of both groups are counted once", "_evidence/worst_case.py",
             "b1 * n2[:, 0] + b2 * n1[:, 0] - b1 * b2", "b1 * n2[:, 0] + b2 * n1[:, 0] - 2 * b1 * b2",
             "tests/test_comparing.py"),
    Mutation("ranks: bad rows of strata are in the smallest", "_evidence/worst_case.py",
             "np.argsort(-other, axis=1", "np.argsort(other, axis=1",
             "tests/test_rank_evidence.py"),
    Mutation("ranks: hidden rows are not allowed for", "_evidence/worst_case.py",
             "bad.label * (n2.max(axis=1) + bad.reference)", "bad.label * n2.max(axis=1)",
             "tests/test_intervals.py"),
    Mutation("ranks: bad rows are allowed for once, not twice, in 2U", "_evidence/worst_case.py",
             "w.sum(axis=1) - 2 * moved", "w.sum(axis=1) - moved",
             "tests/test_comparing.py"),
    Mutation("ranks: bad rows do not add values that are not zero", "_evidence/worst_case.py",
             "np.minimum(A + m, n1 + n2) if unknown", "np.minimum(A, n1 + n2) if unknown",
             "tests/test_rank_evidence.py"),
    Mutation("ranks: the bound is for the A that is seen", "_evidence/worst_case.py",
             "bound=unknown, halves=halves", "bound=False, halves=halves",
             "tests/test_rank_evidence.py"),
    Mutation("ranks: zeros that are bad are good", "_evidence/worst_case.py",
             "np.maximum(zeros - bad - self.case.more, 0)", "zeros",
             "tests/test_rank_evidence.py"),
    Mutation("ranks: two sides for the price of one", "_evidence/worst_case.py",
             "sides, far = math.log(self.case.side.number),", "sides, far = 0.0,",
             "tests/test_comparing.py"),
    Mutation("ranks: two blocks for the price of one", "_evidence/worst_case.py",
             "tests[other]) + (LOG_2 if one != other else 0.0)", "tests[other])",
             "tests/test_rank_evidence.py"),
    Mutation("ranks: what ties count is decided by what is seen", "_evidence/worst_case.py",
             "REPEAT_SHARE * (repeats + m) >= counted - m", "REPEAT_SHARE * repeats >= counted",
             "tests/test_rank_evidence.py"),
    Mutation("ranks: which null applies is decided by what is seen", "_evidence/worst_case.py",
             "BLOCK_SHARE * most >= self.rows", "BLOCK_SHARE * values >= self.rows",
             "tests/test_rank_evidence.py"),
    Mutation("ranks: least effects on one side only", "_evidence/ranks.py",
             "np.min(looks, axis=0) + np.log(len(looks))", "np.min(looks, axis=0)",
             "tests/test_families.py"),
    Mutation("ranks: ties cost nothing", "_stats/group_ranks.py",
             ".log_tails((w[at] + 1) // 2) + LOG_2 * halves", ".log_tails((w[at] + 1) // 2)",
             "tests/test_nulls.py"),
    Mutation("ranks: ties beside zeros cost nothing", "_kernels/rank_tails.py",
             "(min(0.0, inside + LOG_2) if halves else inside)", "inside",
             "tests/test_nulls.py"),
    Mutation("ranks: the null of U is off by one", "_kernels/rank_transforms.py",
             "start, number, band = place + power - 1, period, 0", "start, number, band = place + power, period, 0",
             "tests/test_nulls.py"),
    Mutation("ranks: the normal tail is a hundredth too small", "_kernels/rank_tails.py",
             "SURPLUS = 0.02", "SURPLUS = -0.01",
             "tests/test_nulls.py"),
    Mutation("families: every test is one of its own", "_stats/decision.py",
             "*adjust(p, n, rule.scale)", "*adjust(p, n // len(allowed), rule.scale)",
             "tests/test_families.py"),
    Mutation("families: Holm is for one test", "_evidence/groups.py",
             "return rejected(rule, probabilities(self._clean), self.n_hypotheses)",
             "return rejected(rule, probabilities(self._clean), self.n_hypotheses // len(self.tests))",
             "tests/test_families.py"),
    Mutation("decisions: open brackets are taken for rejected", "_stats/decision.py",
             "np.maximum.at(low, which[kept], step[kept])", "np.maximum.at(low, which, step)",
             "tests/test_selection.py"),
    Mutation("rest: bad rows of the largest label only", "_evidence/ranks.py",
             "BadRows(sum(of_labels)", "BadRows(max(of_labels)",
             "tests/test_families.py"),
    Mutation("signs: the null is off by one", "_stats/nulls.py",
             "betainc(np.maximum(k, 1), np.maximum(n - k + 1, 1), 0.5)",
             "betainc(np.maximum(k + 1, 1), np.maximum(n - k, 1), 0.5)",
             "tests/test_nulls.py"),
    Mutation("means: a bad row moves sums by half of what it can", "_evidence/means.py",
             "moved = 2 * move", "moved = move",
             "tests/test_mean.py"),
    Mutation("signed ranks: slack is a row too small", "_stats/signed_ranks.py",
             "score_sums(values - bad_rows, cap)", "score_sums(values - np.maximum(bad_rows - 1, 0), cap)",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: what ties count is decided by what is seen", "_evidence/signed_ranks.py",
             "REPEAT_SHARE * (repeats - bad) <", "REPEAT_SHARE * repeats <",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: mean scores of ties cost nothing", "_evidence/signed_ranks.py",
             "LOG_2 + log_tails(values[many], cap, halves)", "log_tails(values[many], cap, halves)",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: the side that cannot reject is looked at", "_evidence/signed_ranks.py",
             "whole[-1] > whole[0]", "whole[-1] < whole[0]",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: the last number of bad rows forgets mean scores of ties", "_evidence/signed_ranks.py",
             "if (both := reached > tenth - 1 - repeats).any():", "if (both := reached > self.n_rows).any():",
             "tests/test_small_fits.py"),
    Mutation("signed ranks: zeros are ranked", "_evidence/signed_ranks.py",
             "gaps.sum(axis=1) if keep_zeros else (codes == 0).sum(axis=1)", "gaps.sum(axis=1)",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: p falls where a cap is left out", "_evidence/signed_ranks.py",
             "out[here] = np.maximum(out[here], p)", "out[here] = p",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: all caps are looked at", "_stats/signed_ranks.py",
             "in stages_of(lasts) if", "in stages_of([n] * len(lasts)) if",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: each cap has all of the error", "_evidence/signed_ranks.py",
             "logs = np.log(shares / max(alpha, shares.sum()))", "logs = np.log(shares / shares)",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: a radius forgets the caps of fewer bad rows", "_evidence/signed_ranks.py",
             "alpha_shares=alpha_shares, start", "alpha_shares=0.0, start",
             "tests/test_signed_ranks.py"),
    Mutation("radius: forgets the sizes of fewer bad rows", "_evidence/signs.py",
             "out = replace(self, stages=stages, alpha_shares=shares, start",
             "out = replace(self, stages=stages, alpha_shares=0, start",
             "tests/test_selection.py"),
    Mutation("radius: rows that change leave sizes out", "_evidence/signs.py",
             "out = replace(self, stages=stages, alpha_shares=shares", "out = replace(self, alpha_shares=shares",
             "tests/test_selection.py"),
    Mutation("signed ranks: ties have the mean of their ends", "_kernels/signed_ranks.py",
             "half, end = signed // 2, rank + number - 1", "half, end = 0, rank + number - 1",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: two sides for the price of one", "_evidence/signed_ranks.py",
             "out + np.log(self.n_sides)", "out",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: shares add up to more than one", "_stats/signed_ranks.py",
             "SHARES = (1 / 9, 4 / 9, 4 / 9)", "SHARES = (1 / 6, 4 / 9, 4 / 9)",
             "tests/test_rank_intervals.py"),
    Mutation("signed ranks: tails are 1 % too small", "_stats/signed_ranks.py",
             "out + values * ROUNDED", "out - 0.01",
             "tests/test_signed_ranks.py"),
    Mutation("signed ranks: rows that are replaced leave the sum for no bad row alone", "_evidence/signed_ranks.py",
             "if self.start else np.full", "if self.start < 0 else np.full",
             "tests/test_signed_ranks.py"),
    Mutation("filter: without bad rows, however many there are", "_evidence/signed_ranks.py",
             "passing = by_signs.last(largest, features)", "passing = np.full(features.size, plan.n_units // 2)",
             "tests/test_rank_filter.py"),
    Mutation("intervals of ranks: the null value counts as above itself", "_kernels/signed_ranks.py",
             'np.searchsorted(x, theta, side="right")', 'np.searchsorted(x, theta, side="left")',
             "tests/test_rank_intervals.py"),
    Mutation("intervals of ranks: bad rows are not allowed for", "_evidence/signed_ranks.py",
             "critical_sums(there, cap, log_error) + slack_of(bad_rows, there, cap)",
             "critical_sums(there, cap, log_error)",
             "tests/test_rank_intervals.py"),
    Mutation("intervals of ranks: two sides for the price of one", "_evidence/signed_ranks.py",
             "np.log(error / side.number * shares", "np.log(error * shares",
             "tests/test_rank_intervals.py"),
    Mutation("intervals of ranks: the end is the mean of two before", "_kernels/signed_ranks.py",
             "out[k] = next_mean(x, low - 2 * least)", "out[k] = low",
             "tests/test_rank_intervals.py"),
    Mutation("intervals of ranks: zeros are kept where the test drops them", "_evidence/signed_ranks.py",
             "np.where(rows == 0, np.nan, rows)", "rows",
             "tests/test_rank_intervals.py"),
    Mutation("buckets: every stretch draws the words of the first", "_stats/buckets.py",
             "stream.advance(first_block * BLOCK // 4)", "stream.advance(0)",
             "tests/test_partition.py"),
    Mutation("buckets: another seed is the same", "_stats/buckets.py",
             "np.random.Philox(key=seed)", "np.random.Philox(key=0)",
             "tests/test_partition.py"),
    Mutation("missing values: buckets without any are counted", "_util/records.py",
             "self.present[:, columns] += other.everywhere()",
             "self.present[:, columns] += np.array(other.n_buckets, dtype=np.int32)[:, np.newaxis]",
             "tests/test_missing.py"),
    Mutation("merging: rows kept as they are get lost", "_evidence/counting/*.py",
             re.compile(r"\(\*total\.(\w+), \*other\.\1\), key="), r"total.\1, key=",
             "tests/counts/test_stream.py"),
    Mutation("far values: those just below a gap are beyond it", "_stats/row_scores.py",
             "np.flatnonzero(value > border[column])", "np.flatnonzero(value >= border[column])",
             "tests/test_rows.py"),
    Mutation("rounding: means about a null value keep their last bit", "_kernels/rounding.py",
             "reach = precision * (null != 0)", "reach = 0.0 * precision * (null != 0)",
             "tests/test_rounding.py"),
    Mutation("rounding: counts about a null value keep their last bit", "_kernels/cpu.py",
             "(null[piece], precision * (null[piece] != 0))", "(null[piece], 0.0 * precision * (null[piece] != 0))",
             "tests/test_rounding.py"),
    Mutation("rounding: single precision is taken for double", "_kernels/memory_layout.py",
             'dtype if dtype.kind == "f" else np.float64, np.float64', "np.float64, np.float64",
             "tests/test_rounding.py"),
    Mutation("rounding: groups of doubles are compared to the last bit", "_kernels/groups.py",
             "x = snap(x) if digits else x", "x = x if digits else x",
             "tests/test_rounding.py"),
    Mutation("ranks: ties are held against all rows", "_evidence/worst_case.py",
             "self._rule(UPPER, self.repeats[:, 0], above,", "self._rule(UPPER, self.repeats[:, 0], values,",
             "tests/test_rank_evidence.py"),
    Mutation("two values: the tail begins one too late", "_kernels/rank_tails.py",
             "logs = log_choose(A, a) + log_choose(n - A, n1 - a)",
             "a += 1; logs = log_choose(A, a) + log_choose(n - A, n1 - a)",
             "tests/test_conversions.py"),
    Mutation("given ties: the first row that is drawn is not counted", "_evidence/ranks.py",
             "drawn * (drawn + 1 - np.array", "drawn * (drawn - np.array",
             "tests/test_rank_evidence.py"),
    Mutation("given ties: two sides for the price of one", "_evidence/ranks.py",
             "log_p[columns[at]] = sides + np.array", "log_p[columns[at]] = np.array",
             "tests/test_rank_evidence.py"),
    Mutation("given ties: angles at which much is left are left out", "_kernels/tied_tails.py",
             "GONE = 23.0", "GONE = 1.5",
             "tests/kernels/test_tied_tails.py"),
    Mutation("given ties: levels count once", "_kernels/tied_tails.py",
             "left = int(times[k])", "left = 1",
             "tests/kernels/test_tied_tails.py"),
    Mutation("auto: rows are judged by the support of the rule", "_fit/screening.py",
             "support = np.flatnonzero(adjusted <= question.level)", "support = decision.support",
             "tests/test_rules.py"),
    Mutation("rounding: pairs are subtracted as they are", "_fit/designs.py",
             "= difference(high, low, grid)", "= high - low",
             "tests/test_rounding.py"),
    Mutation("sparse variance: what is taken for a matrix of the set is none", "baselines/_sparse_variance.py",
             "share = (k - 1) / (total - 1)", "share = k / (total - 1)",
             "tests/baselines/test_sparse_sdp.py"),
    Mutation("sparse variance: the upper bound forgets its second part", "baselines/_sparse_variance.py",
             "+ self.k * float(np.abs(U).max())", "+ 0 * float(np.abs(U).max())",
             "tests/baselines/test_sparse_sdp.py"),
    Mutation("directions: negative ones are not walked through", "baselines/_sign_vectors.py",
             "if minus > half:", "if minus > 2 * half:",
             "tests/baselines/test_sparse_directions.py"),
    Mutation("stability filter: tails are given nothing", "baselines/filters.py",
             "bad = max(bad, min(bad + math.ceil(math.log(1 / FAILURE)), J // 4))", "bad = max(bad, 0)",
             "tests/baselines/test_filters.py"),
    Mutation("sorted files: what goes with the order is left in", "_stats/assumptions.py",
             "r = r - curves @ (curves.transpose(0, 2, 1) @ r)", "r = r - r.mean(axis=1, keepdims=True)",
             "tests/test_dependence.py"),
    Mutation("sorted files: a second key is not looked for", "_stats/assumptions.py",
             "while keys.columns.size < MOST_KEYS and", "while not keys.columns.size and",
             "tests/test_dependence.py"),
    Mutation("sorted files: subjects by their number are an order", "_stats/assumptions.py",
             "FEW_VALUES = 30", "FEW_VALUES = 10_000",
             "tests/test_dependence.py"),
    Mutation("sorted files: what a curve takes is not given back", "_stats/assumptions.py",
             "axis=2) + variance[:, np.newaxis] * shared", "axis=2)",
             "tests/test_dependence.py"),
    Mutation("sorted files: two ones below all zeros are an order", "_stats/assumptions.py",
             "NO_CHANCE = 9.0", "NO_CHANCE = 2.0",
             "tests/test_dependence.py"),
    Mutation("means: the scale is taken from neighbours in the file", "_fit/mean.py",
             "return order[first[order]], np", "return np.flatnonzero(first), np",
             "tests/test_mean.py"),
    Mutation("radius of groups: a row is in as many pairs as the smaller one has rows", "_evidence/worst_case.py",
             "self.case.more * counts[..., :2].max(axis=(1, 2))",
             "self.case.more * counts[..., :2].min(axis=(1, 2))",
             "tests/test_comparing.py"),
    Mutation("means of groups: sums do not bend between centres", "_evidence/means.py",
             "at_ends[:, :-1]) - bend[:, np.newaxis]", "at_ends[:, :-1])",
             "tests/test_group_means.py"),
    Mutation("intervals between means of groups: sums do not bend", "_evidence/means.py",
             "share * far - 0.5 * share * (1 - share) * bend", "share * far",
             "tests/test_group_means.py"),
    Mutation("means of groups: the bias of a group is left out", "_evidence/means.py",
             "bias = kappa * n * (sigma / unit) ** 2 + n * ERROR", "bias = 0 * kappa * n * (sigma / unit) ** 2",
             "tests/test_group_means.py"),
    Mutation("means: the bias is left out", "_stats/nulls.py",
             "bias=variance + n * ERROR", "bias=n * ERROR",
             "tests/test_mean.py"),
    Mutation("means: tuned at level for level/d", "_stats/nulls.py",
             "log_odds = math.log(factor * plan.n_hypotheses / plan.question.level)\n    kappa",
             "log_odds = math.log(factor / plan.question.level)\n    kappa",
             "tests/test_mean.py"),
    Mutation("means of groups: tuned at level for level/d", "_fit/mean.py",
             "error=request.level / plans[0].n_hypotheses, of_level", "error=request.level, of_level",
             "tests/test_group_means.py"),
    Mutation("screening: bad rows that are gone may still be there", "_fit/screening.py",
             "min(plan.contamination, self.left / self.kept.size) if", "plan.contamination if",
             "tests/test_improving_told.py"),
    Mutation("screening: a share of all rows is one of those that are left", "_fit/screening.py",
             "min(plan.contamination, self.left / self.kept.size)", "min(plan.contamination, self.left / plan.n_units)",
             "tests/test_improving_told.py"),
    Mutation("screening: without a named share those that are gone are doubted again", "_fit/screening.py",
             "DOUBT * plan.n_units - (plan.n_units - self.kept.size)", "DOUBT * plan.n_units",
             "tests/test_improving_told.py"),
    Mutation("groups: p falls where a bad row is allowed for", "_evidence/ranks.py",
             "return found if clean is None else np.maximum(found, clean)", "return found",
             "tests/test_rank_evidence.py"),
    Mutation("screening: the limit is a deviation nearer", "_stats/row_scores.py",
             "math.sqrt(2 * math.log(n)) + 1", "math.sqrt(2 * math.log(n))",
             "tests/test_rows.py"),
]  # fmt: skip


def survives(mutation: Mutation, copy: Path) -> str:
    """Run the test file against a mutated copy of the package; say what is wrong, nothing where a test failed."""
    try:
        file, mutated = mutation.place(copy / "sparsemean")
    except LookupError as error:
        return str(error)
    before, text = file.stat(), file.read_text(encoding="utf-8")
    file.write_text(mutated, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", mutation.killed_by]
    given = {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}  # bytecode of one second and size may be stale
    try:
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **given}, capture_output=True, text=True)
    finally:
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    if done.returncode == FAILED:
        return ""
    return "no test failed" if done.returncode == 0 else f"the tests did not run:\n{done.stdout}{done.stderr}"


def main(*parts: str) -> int:
    """Run the mutations whose name has one of ``parts``, all without any; return how many were not noticed."""
    wanted = [m for m in MUTATIONS if not parts or any(part in m.name for part in parts)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        copies = SimpleQueue[Path]()
        for k in range(AT_ONCE):  # with their compiled kernels, which are told by the time of their file
            copies.put(shutil.copytree(ROOT / "src", Path(folder) / str(k)))

        def run(mutation: Mutation) -> bool:
            copy, began = copies.get(), time.perf_counter()
            try:
                wrong = survives(mutation, copy)
            finally:
                copies.put(copy)
            seconds = time.perf_counter() - began
            print(f"{'SURVIVED' if wrong else 'killed  '} {seconds:4.0f} s  {mutation.name}", wrong, flush=True)  # noqa: T201
            return bool(wrong)

        survivors = sum(pool.map(run, wanted))
    print(f"{len(wanted) - survivors} of {len(wanted)} mutations were killed")  # noqa: T201
    return survivors


if __name__ == "__main__":
    sys.exit(min(1, main(*sys.argv[1:])))
