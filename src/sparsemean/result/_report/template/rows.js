// How far each row contradicts the rest.
const crowded = (a, b, across) => Math.abs(a.x - b.x) < across && Math.abs(a.y - b.y) < 14;

function drawRows(width) {
  const { index, scores, mass, limit, n_shown: suspects } = data.rows;
  if (!index.length && mass === null) return nothing(width, `The ${data.row}s were not judged.`);
  const height = 330;
  const box = { width, left: 48, right: width - 16, top: 34, bottom: height - 48 };
  let [low, high] = mass === null ? [Infinity, -Infinity] : [mass.y[0], mass.y[1]];
  for (const score of scores) [low, high] = [Math.min(low, score), Math.max(high, score)];
  [low, high] = niceRange(Math.min(low, 0), Math.max(high, limit), 0.05);
  if (low > -0.6 && !data.groups) low = Math.min(0, low);
  const x = linear([-0.02 * data.n_rows, 1.02 * data.n_rows], [box.left, box.right]);
  const y = linear([low, high], [box.bottom, box.top]);
  const root = canvas(width, height);
  const heights = ticks(low, high, 5);
  root.append(axisLeft(box, y, heights, tickTexts(heights), data.groups ? `how far a ${data.row} looks like ${short(data.groups[0], 14)} or ${short(data.groups[1], 14)} against its label` : "robust deviations from the rest"));
  const across = ticks(0, data.n_rows, width < 420 ? 4 : 6).filter(Number.isInteger);
  root.append(axisBelow(box, x, across, tickTexts(across), `${data.row}, in the order of the data`));
  if (mass !== null) root.append(massOf(mass, x, y));
  root.append(svg("path", { class: "guide", d: `M${box.left} ${y(limit)}H${box.right}` }));
  root.append(svg("text", { x: box.left + 4, y: y(limit) - 6 }, data.groups ? "contradict their label above" : "suspects lie above"));
  const marks = index.map((row, k) => ({ mark: { kind: "row", id: k }, x: x(row), y: y(scores[k]) }));
  root.append(dots(marks.slice(suspects), "plain-dot"));
  root.append(svg("path", { class: "alarm", d: marks.slice(0, suspects).map((at) => `M${at.x.toFixed(1)} ${(at.y - 5.5).toFixed(1)}l5 9h-10z`).join("") }));
  const named = [];
  for (const at of marks.slice(0, Math.min(suspects, 40))) { // worst first, where there is room
    if (named.length < 12 && marks.slice(0, suspects).every((each) => each === at || !crowded(each, at, 70)) && named.every((each) => !crowded(each, at, 110))) {
      named.push(at);
      root.append(nameBeside(rowName(at.mark.id), at, width));
    }
  }
  return { svg: root, marks: marks.slice(), emphasis: ringed(placesOf(marks), width) };
}
