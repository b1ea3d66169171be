// How many features are left as more rows may be bad.
function drawRobustness(width) {
  const height = 330;
  const box = { width, left: 48, right: width - 16, top: 34, bottom: height - 48 };
  const { steps } = data.robustness;
  const { planned } = data.robustness;
  const [most, last] = [steps[1], steps[steps.length - 2]];
  if (!most) return nothing(width, `No ${data.feature} is selected, even if no ${data.row} is bad.`);
  const end = Math.max(last, planned === null ? 0 : planned * 1.02, 1e-3);
  const x = linear([0, end * 1.06], [box.left, box.right]);
  const y = linear([0, most * 1.06], [box.bottom, box.top]);
  const root = canvas(width, height);
  const heights = ticks(0, most, 5).filter(Number.isInteger);
  root.append(axisLeft(box, y, heights, tickTexts(heights), `${data.feature}s selected`));
  const across = ticks(0, end * 106, width < 420 ? 4 : 6);
  root.append(axisBelow(box, (value) => x(value / 100), across, tickTexts(across).map((text) => `${text} %`), `share of ${data.each} that may be bad`));
  let d = "";
  for (let k = 0; k < steps.length; k += 2) d += k ? `H${x(steps[k]).toFixed(1)}V${y(steps[k + 1]).toFixed(1)}` : `M${x(0)} ${y(most)}`;
  root.append(svg("path", { class: "step", d }));
  if (planned !== null) {
    const at = x(planned);
    root.append(svg("path", { class: "guide", d: `M${at} ${box.top}V${box.bottom}` }));
    const before = at > width * 0.65;
    root.append(svg("text", { x: at + (before ? -6 : 6), y: box.bottom - 8, "text-anchor": before ? "end" : "start" }, `assumed: ${data.bad}`));
  }
  if (!stop().fit) root.append(svg("path", { class: "now", d: `M${x(stop().share)} ${box.top}V${box.bottom}` }));
  const lost = (share) => { // the step at which a feature goes that is selected up to a share
    let k = 2;
    while (k < steps.length - 2 && steps[k] <= share + 1e-9) k += 2;
    return k;
  };
  const marks = [];
  for (let k = 0; k < count; k += 1) {
    const share = column.max_contamination[k];
    if (Number.isFinite(share)) marks.push({ mark: { kind: "feature", id: k }, x: x(steps[lost(share)]), y: y(steps[lost(share) - 1]), share });
  }
  marks.sort((a, b) => a.share - b.share);
  const emphasis = ringed(placesOf(marks), width);
  return { svg: root, marks: marks.filter(({ mark }) => state.passes[mark.id]), emphasis };
}
