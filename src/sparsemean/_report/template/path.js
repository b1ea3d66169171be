// How features leave zero: their walks, or the iterations at which they do.
function drawPath(width) {
  if (!data.n_selected) return data.path.rest.length ? drawWalks(width) : nothing(width, "No feature was selected.");
  return data.path.times.length ? drawWalks(width) : drawEntries(width);
}

function drawWalks(width) {
  const height = 360;
  const box = { width, left: 48, right: width - 12, top: 34, bottom: height - 48 };
  const { times, walks, rest, alpha, read_at: readAt } = data.path;
  let [low, high] = [Infinity, -Infinity];
  for (const walk of walks.concat(rest)) {
    for (const value of walk) {
      if (value !== null) [low, high] = [Math.min(low, value / 1000), Math.max(high, value / 1000)];
    }
  }
  if (!(high > low)) [low, high] = [low - 1, low + 1];
  if (!Number.isFinite(low)) [low, high] = [-1, 1];
  const x = linear([0, times[times.length - 1]], [box.left, box.right]);
  const y = linear([low, high + (high - low) * 0.03], [box.bottom, box.top]);
  const root = canvas(width, height);
  const step = Math.max(1, Math.ceil((high - low) / 6));
  const powers = [];
  for (let power = Math.ceil(low); power <= high; power += 1) if (power % step === 0) powers.push(power);
  root.append(axisLeft(box, y, powers, powers.map((power) => (power === 0 ? "1" : `10${raised(power)}`)), "distance from the null value, units of the data"));
  const across = ticks(0, times[times.length - 1], width < 420 ? 4 : 6);
  root.append(axisBelow(box, x, across, tickTexts(across), "iteration t"));
  const line = (walk) => {
    let d = "";
    let pen = "M";
    walk.forEach((value, t) => {
      if (value === null) pen = "M";
      else [d, pen] = [`${d}${pen}${x(times[t]).toFixed(1)} ${y(value / 1000).toFixed(1)}`, "L"];
    });
    return d;
  };
  if (rest.length) root.append(svg("path", { class: "rest", d: rest.map(line).join("") }));
  if (alpha !== null && Math.log10(alpha) > low) {
    const at = y(Math.log10(alpha));
    root.append(svg("path", { class: "guide", d: `M${box.left} ${at}H${box.right}` }), svg("text", { x: box.left + 4, y: at - 6 }, "α"));
  }
  if (readAt !== null) {
    root.append(svg("path", { class: "guide", d: `M${x(readAt)} ${box.top}V${box.bottom}` }), svg("text", { x: x(readAt) + 5, y: box.bottom - 8 }, "support read"));
  }
  const lines = walks.map(line);
  const bundle = svg("g", { class: walks.length > 30 ? "many" : "" });
  root.append(bundle);
  lines.forEach((d, k) => bundle.append(svg("path", { class: `line ${sideOf(k) < 0 ? "down" : "up"}${state.passes[k] ? "" : " faded"}`, d })));
  const marks = walks.map((walk, k) => walkMark(walk, k, (t) => x(times[t]), (value) => y(value / 1000)));
  const kept = marks.filter(({ mark }) => state.passes[mark.id]).sort((a, b) => column.entry_time[a.mark.id] - column.entry_time[b.mark.id]);
  const emphasis = (mark, picked) => {
    if (mark.kind !== "feature" || mark.id >= walks.length) return [];
    const end = marks[mark.id];
    const out = [svg("path", { class: `thick ${sideOf(mark.id) < 0 ? "down" : "up"}`, d: lines[mark.id] }), svg("circle", { cx: end.x, cy: end.y, r: 5 })];
    if (picked) out.push(nameBeside(nameOf(mark.id), { x: end.x, y: end.y - 12 }, width));
    return out;
  };
  return { svg: root, marks: kept, reach: 14, emphasis };
}

// A walk is as far away as the line beside the pointer is.
function walkMark(walk, k, x, y) {
  const points = walk.map((value, t) => (value === null ? null : [x(t), y(value)])).filter((each) => each !== null);
  const [endX, endY] = points.length ? points[points.length - 1] : [x(0), y(0)];
  const distance = (atX, atY) => {
    let least = Infinity;
    for (let t = 1; t < points.length; t += 1) {
      const [[ax, ay], [bx, by]] = [points[t - 1], points[t]];
      if (bx < atX - 20 || ax > atX + 20) continue;
      const along = Math.max(0, Math.min(1, ((atX - ax) * (bx - ax) + (atY - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1)));
      least = Math.min(least, Math.hypot(ax + along * (bx - ax) - atX, ay + along * (by - ay) - atY));
    }
    return least;
  };
  return { mark: { kind: "feature", id: k }, x: endX, y: endY, distance };
}

function drawEntries(width) {
  const height = 360;
  const box = { width, left: 48, right: width - 16, top: 34, bottom: height - 48 };
  const some = Array.from({ length: Math.min(count, data.n_selected) }, (_, k) => k).filter((k) => Number.isFinite(column.entry_time[k]));
  some.sort((a, b) => column.entry_time[a] - column.entry_time[b]);
  if (!some.length) return nothing(width, "No selected feature leaves zero.");
  const times = some.map((k) => column.entry_time[k]);
  const x = linear([0, times[times.length - 1] * 1.05], [box.left, box.right]);
  const y = linear([some.length + 0.5, 0.5], [box.bottom, box.top]);
  const root = canvas(width, height);
  const ranks = ticks(1, some.length, Math.min(5, some.length)).filter((value) => Number.isInteger(value) && value >= 1);
  root.append(axisLeft(box, y, ranks, tickTexts(ranks), "order of entry"));
  const across = ticks(0, times[times.length - 1] * 1.05, width < 420 ? 4 : 6);
  root.append(axisBelow(box, x, across, tickTexts(across), "iteration at which the feature leaves zero"));
  const marks = some.map((k, rank) => ({ mark: { kind: "feature", id: k }, x: x(column.entry_time[k]), y: y(rank + 1) }));
  root.append(colouredDots(marks));
  return { svg: root, marks: marks.filter(({ mark }) => state.passes[mark.id]), emphasis: ringed(placesOf(marks), width) };
}
