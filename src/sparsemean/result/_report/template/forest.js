// Estimates and intervals of the features the table shows now.
const MOST_LINES = 100;
const UNITS_DIFFER = 100; // times as large as the smallest: one axis for all says little
let logarithmic = null; // null: decided by the numbers
let relative = null; // in % of the mean of the reference; null: decided by the numbers

const reference = (k) => (data.in_percent && measureOf(k) !== "pairs" && column.mean_0[k] > 0 ? column.mean_0[k] : NaN);
const sizesOf = (chosen) => chosen.map((k) => Math.abs(column.estimate[k] - nullOf(k))).filter((size) => size > 0).sort((a, b) => a - b);
const scaled = (value, k, percent) => (percent ? (100 * value) / reference(k) : value);

function inPercent(chosen) {
  if (!data.in_percent || relative === false) return false;
  const there = chosen.filter((k) => !Number.isNaN(reference(k)));
  if (relative === true) return there.length > 0;
  const sizes = sizesOf(chosen);
  return there.length === chosen.length && sizes.length > 1 && sizes[sizes.length - 1] > UNITS_DIFFER * sizes[0];
}

function forestValues(chosen, percent) {
  const values = [];
  for (const k of chosen) values.push(...[column.estimate[k], column.ci_low[k], column.ci_high[k], nullOf(k)].map((value) => scaled(value, k, percent)));
  return values.filter(Number.isFinite);
}

function spreads(chosen, percent) {
  const sizes = percent ? chosen.map((k) => Math.abs(scaled(column.estimate[k], k, true))).filter((size) => size > 0).sort((a, b) => a - b) : sizesOf(chosen);
  return sizes.length > 2 && sizes[sizes.length - 1] > 60 * sizes[Math.floor(sizes.length / 2)];
}

function forestScale(chosen, box, width, percent) {
  const values = forestValues(chosen, percent);
  let [low, high] = niceRange(Math.min(...values), Math.max(...values), 0.06);
  if (!(logarithmic === null ? spreads(chosen, percent) : logarithmic)) {
    const marks = ticks(low, high, width < 420 ? 4 : 8);
    return { x: linear([low, high], [box.left, box.right]), marks, texts: tickTexts(marks), words: "" };
  }
  const sizes = values.map(Math.abs).filter((size) => size > 0);
  const bend = bothSides(Math.max(Math.min(...sizes), Math.max(...sizes) * 1e-7));
  [low, high] = [bend(Math.min(...values)) - 0.15, bend(Math.max(...values)) + 0.15];
  const bent = linear([low, high], [box.left, box.right]);
  const marks = [0];
  for (let power = Math.ceil(Math.log10(Math.min(...sizes))); power <= Math.log10(Math.max(...sizes)); power += 1) marks.push(10 ** power, -(10 ** power));
  const x = (value) => bent(bend(value));
  const kept = marks.filter((value) => x(value) >= box.left && x(value) <= box.right).sort((a, b) => a - b);
  const apart = kept.filter((value, k) => value === 0 || Math.abs(x(value) - x(0)) > 28 && (k % 2 === 0 || kept.length < 9));
  return { x, marks: apart, texts: apart.map((value) => (value === 0 ? "0" : minus(significant(value, 1)))), words: ", logarithmic on both sides" };
}

function drawForest(width) {
  const listed = shownNow().slice(0, MOST_LINES);
  if (!listed.length) return nothing(width, count ? `No ${data.feature} passes the filter.` : `No ${data.feature} was selected.`);
  if (!data.has_values) return nothing(width, "Estimates and intervals need the rows, which were not at hand.");
  const percent = inPercent(listed);
  const chosen = percent ? listed.filter((k) => !Number.isNaN(reference(k))) : listed;
  find("#forest-old").hidden = !chosen.some((k) => isOld(k) && !Number.isNaN(column.ci_low[k]));
  if (!chosen.some((k) => Number.isFinite(column.estimate[k]) || !Number.isNaN(column.ci_low[k]))) return nothing(width, `There are estimates and intervals of selected ${data.feature}s only.`);
  const line = 22;
  const letters = Math.max(8, Math.min(24, Math.floor(width / 26)));
  const longest = Math.min(letters, Math.max(...chosen.map((k) => nameOf(k).length)));
  const numberWidth = 20 + 6.5 * Math.max(...chosen.map((k) => forestText(k, percent).length));
  const numbers = width >= 640 && numberWidth < width * 0.32;
  const box = { width, left: Math.round(14 + longest * 7.4), right: width - (numbers ? numberWidth : 14), top: 14, bottom: 14 + line * chosen.length };
  const { x, marks: across, texts, words } = forestScale(chosen, box, width, percent);
  const root = canvas(width, box.bottom + 48);
  for (const value of across) root.append(svg("path", { class: "gridline", d: `M${x(value)} ${box.top}V${box.bottom}` }));
  root.append(axisBelow(box, x, across, texts, `${data.effect}, in ${percent ? `% of the mean of ${data.groups[0]}` : "the units of the data"}${words}`));
  const marks = [];
  chosen.forEach((k, place) => {
    const y = box.top + line * (place + 0.5);
    const side = sideOf(k) < 0 ? "down" : "up";
    root.append(svg("text", { class: "label", x: box.left - 12, y: y + 4, "text-anchor": "end" }, short(nameOf(k), longest), svg("title", {}, nameOf(k))));
    const own = (value) => x(scaled(value, k, percent));
    root.append(svg("path", { class: "guide", d: `M${own(nullOf(k))} ${y - line / 2}v${line}` }));
    root.append(interval(k, own, y, box, isOld(k) ? "old" : side));
    const centre = own(column.estimate[k]);
    if (Number.isFinite(centre)) root.append(svg("circle", { class: `fill-${side}`, cx: centre, cy: y, r: 4 }));
    if (numbers) root.append(svg("text", { x: width - 6, y: y + 4, "text-anchor": "end" }, forestText(k, percent)));
    const mark = { kind: "feature", id: k };
    marks.push({ mark, x: Number.isFinite(centre) ? centre : own(nullOf(k)), y, distance: (_, atY) => (Math.abs(atY - y) <= line / 2 ? Math.abs(atY - y) : Infinity) });
  });
  const places = placesOf(marks);
  const emphasis = (mark, picked) => {
    const at = places.get(`${mark.kind}${mark.id}`);
    if (at === undefined) return [];
    return [svg("rect", { class: picked ? "frame picked" : "frame", x: 1, y: at.y - line / 2, width: width - 2, height: line, rx: 3 })];
  };
  return { svg: root, marks, emphasis };
}

function forestText(k, percent) {
  const number = (value) => shown(scaled(value, k, percent), "percent");
  if (percent && Number.isNaN(column.ci_low[k])) return number(column.estimate[k]);
  if (percent) return `${number(column.estimate[k])}  [${number(column.ci_low[k])}, ${number(column.ci_high[k])}]`;
  if (Number.isNaN(column.ci_low[k])) return cellOf.estimate(k);
  return `${cellOf.estimate(k)}  [${cellOf.ci_low(k)}, ${cellOf.ci_high(k)}]`;
}

// A line from end to end; an arrow at the edge where there is no end.
function interval(k, x, y, box, side) {
  const [low, high] = [column.ci_low[k], column.ci_high[k]];
  const group = svg("g", {});
  if (Number.isNaN(low) || Number.isNaN(high)) return group;
  const from = Number.isFinite(low) ? x(low) : box.left + 1;
  const to = Number.isFinite(high) ? x(high) : box.right - 1;
  group.append(svg("path", { class: `interval ${side}`, d: `M${from} ${y}H${to}` }));
  if (!Number.isFinite(low)) group.append(svg("path", { class: `arrow fill-${side}`, d: `M${from - 1} ${y}l8 -4.5v9z` }));
  if (!Number.isFinite(high)) group.append(svg("path", { class: `arrow fill-${side}`, d: `M${to + 1} ${y}l-8 -4.5v9z` }));
  return group;
}

function chooser(id, words, options, change, of = "forest") {
  const choice = html("select", { id }, ...options.map(([value, text]) => html("option", { value }, text)));
  choice.addEventListener("change", () => {
    change(choice.value === "" ? null : choice.value === "1");
    plots.find((each) => each.id === of).redraw();
  });
  return html("label", {}, `${words} `, choice);
}

function forestChoices() {
  const scale = chooser("scale", "Scale", [["", "by the numbers"], ["0", "linear"], ["1", "logarithmic on both sides"]], (chosen) => { logarithmic = chosen; });
  const units = data.in_percent ? chooser("units", "Units", [["", "by the numbers"], ["0", "of the data"], ["1", `% of the mean of ${short(data.groups[0], 22)}`]], (chosen) => { relative = chosen; }) : null;
  find("#forest .plot").before(html("div", { class: "scale needs-script" }, scale, units));
}
