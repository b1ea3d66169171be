// Scales, ticks and axes.
function linear([low, high], [from, to]) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

// Through zero and far out on both sides: linear within ±unit, logarithmic beyond.
function bothSides(unit) {
  return (value) => Math.asinh(value / (2 * unit)) / Math.LN10;
}

function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= rough * 0.999);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) out.push(k * step);
  return out;
}

function tickText(value, all) {
  if (value === 0) return "0";
  const step = all.length > 1 ? Math.abs(all[1] - all[0]) : Math.abs(value);
  const size = Math.max(...all.map(Math.abs));
  if (size >= 1e6 || size < 1e-3) return minus(significant(value, 2));
  return minus(withCommas(value.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))));
}

function niceRange(low, high, share = 0.04) {
  const room = (high - low) * share || Math.abs(high) * share || 1;
  return [low - room, high + room];
}

const LETTER = 6.9; // about as wide as a letter of a title is

// box: { width, left, right, top, bottom } in pixels, width that of the whole plot
function axisBelow(box, scale, marks, texts, title) {
  const group = svg("g", {});
  group.append(svg("path", { class: "axis", d: `M${box.left} ${box.bottom}H${box.right}` }));
  marks.forEach((value, k) => {
    const x = scale(value);
    group.append(svg("path", { class: "axis", d: `M${x} ${box.bottom}v4` }));
    group.append(svg("text", { x, y: box.bottom + 17, "text-anchor": "middle" }, texts[k]));
  });
  const half = (title.length * LETTER) / 2;
  const middle = Math.max(half, Math.min((box.left + box.right) / 2, box.width - half)); // long titles stay inside
  group.append(svg("text", { class: "title", x: middle, y: box.bottom + 37, "text-anchor": "middle" }, title));
  return group;
}

function axisLeft(box, scale, marks, texts, title) {
  const group = svg("g", {});
  marks.forEach((value, k) => {
    const y = scale(value);
    group.append(svg("path", { class: "gridline", d: `M${box.left} ${y}H${box.right}` }));
    group.append(svg("text", { x: box.left - 7, y: y + 4, "text-anchor": "end" }, texts[k]));
  });
  const start = Math.max(0, Math.min(box.left, box.width - title.length * LETTER));
  group.append(svg("text", { class: "title", x: start, y: box.top - 12, "text-anchor": "start" }, title));
  return group;
}

const tickTexts = (marks) => marks.map((value) => tickText(value, marks));

// Counts on a grid: darker where there are more, on a logarithmic scale.
function massOf(mass, x, y) {
  const group = svg("g", { class: "mass" });
  const [x0, x1, across] = mass.x;
  const [y0, y1, up] = mass.y;
  const shades = new Map();
  for (let k = 0; k < mass.cells.length; k += 3) {
    const [i, j, number] = mass.cells.slice(k, k + 3);
    const shade = Math.ceil(8 * (Math.log(number + 1) / Math.log(mass.most + 1)));
    const [left, right] = [x(x0 + ((x1 - x0) * i) / across), x(x0 + ((x1 - x0) * (i + 1)) / across)];
    const [bottom, top] = [y(y0 + ((y1 - y0) * j) / up), y(y0 + ((y1 - y0) * (j + 1)) / up)];
    const high = Math.max(1.5, bottom - top);
    const piece = `M${left.toFixed(1)} ${(bottom - high).toFixed(1)}h${(right - left + 0.3).toFixed(1)}v${(high + 0.3).toFixed(1)}h${(left - right - 0.3).toFixed(1)}z`;
    shades.set(shade, (shades.get(shade) || "") + piece);
  }
  for (const [shade, d] of shades) group.append(svg("path", { class: "cell", d, opacity: (0.08 + 0.085 * shade).toFixed(2) }));
  return group;
}
