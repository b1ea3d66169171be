// Put everything to work.
function startTheme() {
  const button = find("#theme");
  const choices = ["auto", "light", "dark"];
  button.addEventListener("click", () => {
    const next = choices[(choices.indexOf(find("span", button).textContent) + 1) % 3];
    find("span", button).textContent = next;
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
  });
}

function showPicked() {
  const mark = state.picked;
  find("#picked").hidden = mark === null;
  if (mark === null) return;
  find("#picked-name").textContent = titleOf(mark);
  find("#picked-facts").textContent = ` ${factsOf(mark).join(" · ")}`;
}

function markSuspects() {
  for (const row of all("#suspect-table tr[data-row]")) {
    const mark = { kind: "row", id: Number(row.dataset.row) };
    row.classList.toggle("near", same(mark, state.near) || same(mark, state.picked));
  }
}

for (const element of all(".needs-script")) element.hidden = false;
if (count) {
  startTable();
  startDownloads();
  if (find("#forest") !== null) forestChoices();
}
volcanoChoice();
startDots();
startShare();
moveTo(FIT);
startTheme();
on("mark", showPicked);
on("mark", markSuspects);
find("#unpick").addEventListener("click", () => state.picked !== null && pick(state.picked));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  point(null);
  if (state.picked !== null) pick(state.picked);
});
for (const row of all("#suspect-table tr[data-row]")) {
  const mark = { kind: "row", id: Number(row.dataset.row) };
  row.addEventListener("pointerenter", () => point(mark));
  row.addEventListener("pointerleave", () => point(null));
  row.addEventListener("click", () => pick(mark));
}

const framed = (id, ...rest) => (document.getElementById(id) === null ? null : plot(id, ...rest));
framed("volcano", "Effect and evidence", () => `${countWords()} selected at ${stop().words}; shading counts the other ${withCommas(String(data.volcano.mass.total))}.`, drawVolcano);
if (data.values.length) framed("values", "Values", valuesWords, drawValues);
const forest = framed("forest", "Estimates and intervals", () => `The ${shownNow().length} ${data.feature}s shown in the table with their intervals.`, drawForest);
framed("robustness", "Left", () => `${withCommas(String(data.robustness.steps[1]))} ${data.feature}s without bad ${unit}, fewer if more are bad; as a table below.`, drawRobustness);
framed("rows", data.groups ? "Label contradicted" : "Deviation from the rest", () => `${withCommas(String(data.rows.n_suspects))} suspects of ${withCommas(String(data.n_rows))} ${data.row}s; listed below.`, drawRows);
for (const each of plots) each.redraw();

let [lastPasses, lastAt] = [state.passes.slice(), state.at];
on("list", () => {
  const changed = state.at !== lastAt || state.passes.some((value, k) => value !== lastPasses[k]);
  [lastPasses, lastAt] = [state.passes.slice(), state.at];
  for (const each of plots) if (each === forest || (changed && each.id !== "rows")) each.redraw();
});
let lastShown = lastValued();
const showValues = () => {
  if (lastShown === lastValued() || !data.values.length) return;
  lastShown = lastValued();
  plots.find((each) => each.id === "values").redraw();
};
on("mark", showValues);
document.documentElement.dataset.ready = performance.now().toFixed(0); // milliseconds until all can be used
