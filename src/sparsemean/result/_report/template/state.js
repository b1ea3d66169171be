// What is sorted, filtered, pointed at and picked; whoever shows it is told of changes.
const FIT = data.shares.findIndex((each) => each.fit);
const state = {
  at: FIT, // where the slider over the share of bad rows stands
  selected: new Uint8Array(count),
  order: [], // features that pass the filter, as sorted
  passes: new Uint8Array(count),
  page: 0,
  size: 25,
  near: null, // { kind: "feature" or "row", id }
  picked: null,
};
const logOfFit = decoded(data.log10_p, "number");
const logP = logOfFit.slice(); // log₁₀ p at the share that the slider shows: p itself ends where the smallest double does
const listeners = { list: [], mark: [] };
const on = (event, listener) => listeners[event].push(listener);
const tell = (event) => listeners[event].forEach((listener) => listener());
const stop = () => data.shares[state.at];
const same = (a, b) => a === b || (a !== null && b !== null && a.kind === b.kind && a.id === b.id);
const shownNow = () => state.order.slice(state.page * state.size, (state.page + 1) * state.size);

function point(mark) {
  if (same(mark, state.near)) return;
  state.near = mark;
  tell("mark");
}

function pick(mark) {
  state.picked = same(mark, state.picked) ? null : mark;
  if (state.picked !== null && state.picked.kind === "feature") {
    const place = state.order.indexOf(state.picked.id);
    const page = Math.floor(place / state.size);
    if (place >= 0 && page !== state.page) {
      state.page = page;
      tell("list");
    }
  }
  announce(state.picked === null ? "Nothing picked." : `Picked: ${described(state.picked)}`);
  tell("mark");
}
