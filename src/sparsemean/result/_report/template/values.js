// The values of the picked feature, or of the strongest: dots, and a box from quartile to quartile.
const lastValued = () => {
  const mark = state.picked;
  if (mark !== null && mark.kind === "feature") return mark.id;
  return state.order.length ? state.order[0] : 0;
};

function valuesWords() {
  const k = lastValued();
  if (k >= data.values.length) return `The page has no values of ${nameOf(k)}.`;
  const sides = data.values[k].boxes.map((box, side) => (box.length ? `${data.groups === null ? "" : `${data.groups[side]}: `}median ${minus(significant(box[1], 4))}, quartiles ${minus(significant(box[0], 4))} and ${minus(significant(box[2], 4))}` : ""));
  return `${nameOf(k)}. ${sides.filter((each) => each !== "").join("; ")}.`;
}

// Where a dot is put across its band: the golden ratio spreads neighbours, the same way every time.
const jitter = (k) => ((k * 0.618034) % 1) - 0.5;

function drawValues(width) {
  const k = lastValued();
  find("#values-name").textContent = nameOf(k);
  if (k >= data.values.length) return nothing(width, `The page has the values of the strongest ${data.values.length} features only.`);
  const { values, boxes, n, suspects } = data.values[k];
  const sides = data.groups === null ? [0] : [1, 0];
  const band = data.groups === null ? 150 : 110;
  const box = { width, left: 16, right: width - 16, top: 22, bottom: 22 + band * sides.length };
  const every = values.flat().concat(suspects.map((each) => each[2]), data.groups === null ? [nullOf(k)] : []);
  const [low, high] = niceRange(Math.min(...every), Math.max(...every));
  const x = linear([low, high], [box.left, box.right]);
  const root = canvas(width, box.bottom + 48);
  const across = ticks(low, high, width < 420 ? 4 : 6);
  root.append(axisBelow(box, x, across, tickTexts(across), `${short(nameOf(k), 40)}, in the units of the data`));
  if (data.groups === null) {
    root.append(svg("path", { class: "guide", d: `M${x(nullOf(k))} ${box.top}V${box.bottom}` }), svg("text", { x: x(nullOf(k)) + 4, y: box.top + 10 }, "null value"));
  }
  const marks = [];
  sides.forEach((side, place) => {
    const middle = box.top + band * (place + 0.58);
    const kind = data.groups === null ? (sideOf(k) < 0 ? "down" : "up") : side ? "up" : "down";
    const bad = suspects.filter(([, where]) => where === side).length;
    const drawn = values[side].length + bad;
    const many = n[side] > drawn ? `, ${drawn} of them drawn` : "";
    const title = data.groups === null ? `${withCommas(String(n[side]))} values${many}` : `${short(data.groups[side], 22)}: ${withCommas(String(n[side]))} values${many}`;
    root.append(svg("text", { class: "label", x: box.left, y: middle - band * 0.36 }, title));
    root.append(svg("g", { class: "raw" }, dots(values[side].map((value, j) => ({ x: x(value), y: middle + jitter(j) * band * 0.46 })), kind)));
    if (boxes[side].length) {
      const [from, centre, to] = boxes[side].map(x);
      const [top, high2] = [middle - band * 0.27, band * 0.54];
      root.append(svg("path", { class: "quartiles", d: `M${from} ${top}H${to}v${high2}H${from}zM${centre} ${top}v${high2}` }));
    }
    for (const [row, where, value] of suspects) {
      if (where === side) marks.push({ mark: { kind: "row", id: row }, x: x(value), y: middle });
    }
  });
  root.append(svg("path", { class: "alarm", d: marks.map((at) => `M${at.x.toFixed(1)} ${(at.y - 5.5).toFixed(1)}l5 9h-10z`).join("") }));
  return { svg: root, marks, emphasis: ringed(placesOf(marks), width) };
}
