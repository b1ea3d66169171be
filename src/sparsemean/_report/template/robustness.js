// How many features are left as more rows may be bad.
function drawRobustness(width) {
  const height = 330;
  const box = { width, left: 48, right: width - 16, top: 34, bottom: height - 48 };
  const { steps } = data.robustness;
  const n = data.n_units;
  const [most, last] = [steps[1], steps[steps.length - 2]];
  if (!most) return nothing(width, `Not even without bad ${unit} is a feature selected.`);
  const end = Math.max(last, data.bad_rows + 1) / n;
  const x = linear([0, end * 1.06], [box.left, box.right]);
  const y = linear([0, most * 1.06], [box.bottom, box.top]);
  const root = canvas(width, height);
  const heights = ticks(0, most, 5).filter(Number.isInteger);
  root.append(axisLeft(box, y, heights, tickTexts(heights), "features selected"));
  const across = ticks(0, end * 106, width < 420 ? 4 : 6);
  root.append(axisBelow(box, (value) => x(value / 100), across, tickTexts(across).map((text) => `${text} %`), `share of ${unit} that may be bad`));
  let d = "";
  for (let k = 0; k < steps.length; k += 2) d += k ? `H${x(steps[k] / n).toFixed(1)}V${y(steps[k + 1]).toFixed(1)}` : `M${x(0)} ${y(most)}`;
  root.append(svg("path", { class: "step", d }));
  const planned = x(data.bad_rows / n);
  root.append(svg("path", { class: "guide", d: `M${planned} ${box.top}V${box.bottom}` }));
  const before = planned > width * 0.65;
  root.append(svg("text", { x: planned + (before ? -6 : 6), y: box.bottom - 8, "text-anchor": before ? "end" : "start" }, `planned for: ${data.bad_rows} ${unit}`));
  const left = (rows) => {
    let answer = 0;
    for (let k = 0; k < steps.length && steps[k] <= rows; k += 2) answer = steps[k + 1];
    return answer;
  };
  const marks = [];
  for (let k = 0; k < count; k += 1) {
    const slack = Math.round(column.max_contamination[k] * n);
    if (Number.isFinite(slack)) marks.push({ mark: { kind: "feature", id: k }, x: x((slack + 1) / n), y: y(left(slack)), slack });
  }
  marks.sort((a, b) => a.slack - b.slack);
  const emphasis = ringed(placesOf(marks), width);
  return { svg: root, marks: marks.filter(({ mark }) => state.passes[mark.id]), emphasis };
}
