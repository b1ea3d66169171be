// Effect against evidence.
function evidenceTicks(top, rooted) {
  if (rooted && top > 330) return ticks(0, Math.sqrt(1.08 * top), 6).map((root) => Math.round(root * root));
  if (rooted) return [0, 5, 20, 50, 100, 200, 300].filter((value) => value <= top);
  if (top > 2.5) return ticks(0, top, 5).filter(Number.isInteger);
  return [1, 0.5, 0.2, 0.1, 0.05, 0.01].map((p) => (p === 0.01 || p === 0.1 ? Math.round(-Math.log10(p)) : Math.abs(Math.log10(p)))).filter((value) => value <= top);
}

// The p-values of all shares: the axis stays where it is while the slider moves.
const strongest = data.shares.reduce((least, each) => (each.log10_p || []).reduce((a, b) => (b === null ? a : Math.min(a, b)), least), 0);

// How far to the right: the effect in its units, or how far a feature leans to one side.
const MOST_FOLDS = 10; // doublings: where a mean is 0 there is no end of them
let leaning = data.volcano.effect === null || !data.volcano.whole; // of very many the rest has no effect on the page
function acrossOf(k) {
  if (leaning) return lean[k];
  const { key } = data.volcano.effect;
  const value = column[key][k] - (key === "estimate" ? nullOf(k) : 0);
  return key === "estimate" ? value : Math.max(-MOST_FOLDS, Math.min(MOST_FOLDS, value));
}

function volcanoChoice() {
  if (data.volcano.effect === null) return;
  const options = [["0", short(data.volcano.effect.title, 40) + (data.volcano.whole ? "" : `, listed ${data.feature}s only`)], ["1", data.lean]];
  if (leaning) options.reverse();
  find("#volcano .plot").before(html("div", { class: "scale needs-script" }, chooser("across", "Across", options, (chosen) => { leaning = chosen; }, "volcano")));
}

function drawVolcano(width) {
  const height = 360;
  const box = { width, left: 44, right: width - 12, top: 34, bottom: height - 48 };
  const { rate } = data.volcano;
  const mass = leaning ? data.volcano.mass : data.volcano.effect.mass;
  const { bar } = stop();
  const evidence = (k) => -logP[k];
  const some = Array.from({ length: count }, (_, k) => k).filter((k) => !Number.isNaN(logP[k]) && !Number.isNaN(acrossOf(k)));
  let top = Math.max(1, bar || 0, mass.total ? mass.y[1] : 0, -strongest);
  let wide = mass.total ? Math.max(Math.abs(mass.x[0]), Math.abs(mass.x[1])) : 0.1;
  for (const k of some) {
    top = Math.max(top, evidence(k), -logOfFit[k]);
    wide = Math.max(wide, Math.abs(acrossOf(k)));
  }
  wide = leaning ? Math.min(1.04, wide * 1.06) : wide * 1.06;
  const rooted = top > 30;
  const bend = rooted ? Math.sqrt : (value) => value;
  const x = linear([-wide, wide], [box.left, box.right]);
  const plain = linear([0, bend(top * 1.08)], [box.bottom, box.top]);
  const y = (value) => plain(bend(Math.max(0, value)));
  const root = canvas(width, height);
  const heights = evidenceTicks(top, rooted);
  root.append(axisLeft(box, y, heights, heights.map((value) => (Number.isInteger(value) && value > 0 ? `10${raised(-value)}` : String(Math.round(100 * 10 ** -value) / 100))), `p-value${rooted ? ", square-root scale of its exponent" : ", logarithmic scale"}`));
  const across = ticks(-wide, wide, width < 420 ? 4 : 8);
  root.append(massOf(mass, x, y));
  root.append(axisBelow(box, x, across, tickTexts(across), !leaning ? short(data.volcano.effect.title, 60) : data.groups ? `${data.lean}, ${short(data.groups[1], 14)} above ${short(data.groups[0], 14)}` : "β: share of buckets above less share below"));
  const words = [];
  if (bar !== null) {
    root.append(svg("path", { class: "guide", d: `M${box.left} ${y(bar)}H${box.right}` }));
    const under = y(bar) + (y(bar) < box.top + 14 ? 15 : -6);
    root.append(svg("text", { x: box.left + 4, y: under }, "selected above"));
    words.push([box.left, under - 12, box.left + 95, under + 4]);
  }
  for (const value of rate === null || !leaning ? [] : [-rate, rate]) root.append(svg("path", { class: "guide", d: `M${x(value)} ${box.top}V${box.bottom}` }));
  const marks = some.map((k) => ({ mark: { kind: "feature", id: k }, x: x(acrossOf(k)), y: y(evidence(k)) }));
  root.append(colouredDots(marks));
  const listed = marks.filter(({ mark }) => state.passes[mark.id]);
  const { group, named } = namesBeside(listed.filter(({ mark }) => evidence(mark.id) > 0), box, words);
  root.append(group);
  const [ring, places] = [ringed(placesOf(marks), width), listed.slice().sort((a, b) => a.x - b.x)];
  const emphasis = (mark, picked) => ring(mark, picked && !(mark.kind === "feature" && named.has(mark.id)));
  return { svg: root, marks: places, emphasis };
}
