// The maps of a space, its directions, and words against cosines. A text is the same number everywhere.
const TEXTS = DATA.texts, RUNS = DATA.runs, COUNT = TEXTS.length;
const SYMBOLS = ["circle", "square", "triangle", "diamond"];
const mapBy = document.getElementById("map-by"), colourBy = document.getElementById("colour-by");
const find = document.getElementById("find"), hits = document.getElementById("hits");
const panel = document.getElementById("panel"), chips = document.getElementById("groups");
const hidden = new Set();
let found = [], step = -1, pinned = null;

const colourOf = (colours, group) => colours.series[group % colours.series.length];
/** The name of a group; that of the rest is a word. */
const groupName = (group) => (DATA.rest === group ? say(DATA.names[group]) : DATA.names[group]);
const symbolOf = (group) => SYMBOLS[Math.floor(group / THEMES.light.series.length) % SYMBOLS.length];
const isShown = (text) => !hidden.has(DATA.groups[text]);

// Of each text: how many of its nearest texts both encoders agree on, and how often it is among the nearest of others.
const kept = RUNS.length > 1 ? DATA.nearest[0].map((numbers, text) => numbers.filter((number) => DATA.nearest[1][text].includes(number)).length) : null;
const occurrences = DATA.nearest.map((lists) => { const counts = new Array(COUNT).fill(0); lists.flat().forEach((text) => { counts[text] += 1; }); return counts; });
const SHADES = { kept: (run) => [kept, DATA.nearest[0][0].length], hubs: (run) => [occurrences[run], d3.max(occurrences.flat())] };
fillSelect(mapBy, Object.entries(DATA.maps).map(([key, map]) => [key, map.title]), Object.keys(DATA.maps).at(-1));
inEachLanguage(() => fillSelect(colourBy, [["group", say(DATA.colour)], ...(kept ? [["kept", say`nearest texts kept`]] : []), ["hubs", say`hubs: nearest of how many`]], colourBy.value || "group"));

/** Fill of a text: of its group, or darker the larger its number is. */
function fillOf(colours, run) {
  if (colourBy.value === "group") return (text) => colourOf(colours, DATA.groups[text]);
  const [values, most] = SHADES[colourBy.value](run), scale = d3.interpolateRgb(colours.line, colours.warm);
  return (text) => scale(Math.sqrt(values[text] / (most || 1)));
}

function drawMap(run) {
  return (colours, width) => {
    const [across, up] = DATA.maps[mapBy.value].places[run], height = Math.min(width, 560), margin = 12;
    const half = 0.52, wide = (half * (width - 2 * margin)) / (height - 2 * margin);
    const numbers = d3.range(COUNT), shown = numbers.filter(isShown);
    const svg = Plot.plot({
      ...look(colours, width), height, margin, x: { domain: [-wide, wide], axis: null }, y: { domain: [-half, half], axis: null },
      marks: [
        Plot.dot(hidden.size ? numbers.filter((text) => !isShown(text)) : [], { x: (text) => across[text], y: (text) => up[text], r: 1.5, fill: colours.line }),
        Plot.dot(shown, { x: (text) => across[text], y: (text) => up[text], r: 3, symbol: (text) => symbolOf(DATA.groups[text]), fill: fillOf(colours, run), fillOpacity: 0.75 }),
        Plot.dot(found, { x: (text) => across[text], y: (text) => up[text], r: 6, stroke: colours.ink, strokeWidth: 1.5 }),
      ],
    });
    svg.tree = d3.quadtree(shown, (text) => svg.scale("x").apply(across[text]), (text) => svg.scale("y").apply(up[text]));
    return svg;
  };
}
function drawMaps() {
  const container = document.getElementById("maps-figures"), { title } = DATA.maps[mapBy.value];
  container.replaceChildren();
  hidePanel();
  RUNS.forEach((name, run) => addFigure(container, {
    title: `${name}, ${title}`, name: `map-${run + 1}`, draw: drawMap(run),
    caption: mapBy.value === "pca" && DATA.shares[run] ? say`These two directions hold ${DATA.shares[run]} of the variance.` : "",
    table: { head: [say`text`, say(DATA.colour), ...(kept ? [say`nearest kept`] : []), say`nearest of`, say`nearest text`],
      rows: () => TEXTS.map((text, number) => [text, groupName(DATA.groups[number]), ...(kept ? [String(kept[number])] : []), String(occurrences[run][number]), TEXTS[DATA.nearest[run][number][0]]]) },
  }));
}
mapBy.addEventListener("change", drawMaps);
colourBy.addEventListener("change", redrawAll);
const plots = () => [...document.querySelectorAll("#maps-figures .plot")];

// One text: its rings in all maps, and the panel.
function ring(text) {
  plots().forEach((plot, run) => {
    const svg = plot.firstChild, [across, up] = DATA.maps[mapBy.value].places[run], colours = themeNow();
    if (!svg?.scale) return;
    const at = (number) => [svg.scale("x").apply(across[number]), svg.scale("y").apply(up[number])];
    const marks = text === null ? [] : [[text, 9, colours.ink, 2.5], ...DATA.nearest[run][text].map((number) => [number, 6, colours.warm, 1.6])];
    d3.select(svg).selectAll("circle.ring").data(marks).join("circle").attr("class", "ring").attr("fill", "none")
      .attr("cx", ([number]) => at(number)[0]).attr("cy", ([number]) => at(number)[1])
      .attr("r", (mark) => mark[1]).attr("stroke", (mark) => mark[2]).attr("stroke-width", (mark) => mark[3]);
  });
}
function showText(text, place, pin) {
  const lists = RUNS.map((name, run) => make("div", {}, make("p", { class: "note" }, RUNS.length > 1 ? say`nearest, ${name}` : say`nearest`),
    make("ol", { class: "nearest" }, ...DATA.nearest[run][text].map((number) => {
      const item = words("li", clip(TEXTS[number], 90));
      if (DATA.nearest.every((both) => both[text].includes(number)) && kept) item.className = "both";
      return item;
    }))));
  const tools = pin ? [make("div", { class: "panel-tools" }, make("button", { type: "button", onclick: hidePanel }, say`Close`))] : [];
  panel.replaceChildren(...tools, words("h3", clip(TEXTS[text], 300)), words("p", groupName(DATA.groups[text])), ...lists,
    ...(kept ? [make("p", { class: "note" }, say`${kept[text]} of ${DATA.nearest[0][text].length} nearest texts kept`)] : []));
  panel.hidden = false;
  const gap = 16, left = place[0] + gap + panel.offsetWidth < innerWidth ? place[0] + gap : place[0] - gap - panel.offsetWidth;
  panel.style.left = `${Math.max(8, left)}px`;
  panel.style.top = `${Math.max(8, Math.min(place[1], innerHeight - panel.offsetHeight - 8))}px`;
  pinned = pin ? text : null;
  ring(text);
}
function hidePanel() { pinned = null; panel.hidden = true; ring(null); }
/** The text nearest to the pointer, at most 24 pixels away. */
function textAt(event) {
  const svg = event.target.closest("#maps-figures .plot")?.firstChild;
  return svg?.tree?.find(...d3.pointer(event, svg), 24);
}
const maps = document.getElementById("maps-figures");
maps.addEventListener("pointermove", (event) => {
  if (event.pointerType === "touch" || pinned !== null) return;
  const text = textAt(event);
  if (text === undefined) hidePanel(); else showText(text, [event.clientX, event.clientY], false);
});
maps.addEventListener("pointerleave", () => { if (pinned === null) hidePanel(); });
document.addEventListener("click", (event) => {
  if (panel.contains(event.target) || event.target === find) return;
  const text = textAt(event);
  if (text === undefined) hidePanel(); else showText(text, [event.clientX, event.clientY], true);
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hidePanel(); });

// Find: texts that hold what is typed are ringed; Enter goes from one to the next.
find.addEventListener("input", () => {
  const part = find.value.trim().toLowerCase();
  found = part ? d3.range(COUNT).filter((text) => TEXTS[text].toLowerCase().includes(part)) : [];
  step = -1;
  hits.textContent = part ? say`${found.length.toLocaleString("en")} texts` : "";
  redrawAll();
});
find.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !found.length) return;
  step = (step + 1) % found.length;
  const box = plots().at(-1).getBoundingClientRect();
  showText(found[step], [box.left, Math.max(8, box.top)], true);
});

// Groups: a click leaves one out or takes it in again, a double click leaves all others out.
DATA.names.forEach((name, group) => {
  const count = d3.sum(DATA.groups, (other) => other === group);
  const glyph = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  glyph.setAttribute("viewBox", "-7 -7 14 14");
  glyph.setAttribute("aria-hidden", "true");
  path.setAttribute("d", d3.symbol(d3[`symbol${symbolOf(group)[0].toUpperCase()}${symbolOf(group).slice(1)}`], 70)());
  glyph.append(path);
  redraws.push(() => path.setAttribute("fill", colourOf(themeNow(), group)));
  const chip = make("button", { type: "button", "aria-pressed": "true" }, glyph, words("span", groupName(group)), make("span", { class: "count" }, count.toLocaleString("en")));
  inEachLanguage(() => { chip.title = say`Click: without it. Double click: it alone.`; chip.children[1].textContent = groupName(group); });
  const update = () => { [...chips.children].forEach((other, number) => other.setAttribute("aria-pressed", String(!hidden.has(number)))); redrawAll(); };
  chip.addEventListener("click", () => { if (!hidden.delete(group)) hidden.add(group); update(); });
  chip.addEventListener("dblclick", () => { DATA.names.forEach((_, other) => { if (other === group) hidden.delete(other); else hidden.add(other); }); update(); });
  chips.append(chip);
});

// Directions.
const spectrumSet = document.getElementById("spectrum-set"), wordsSet = document.getElementById("words-set");
function drawSpectrum() {
  const spectra = DATA.spectra[spectrumSet.value].map((values) => values.filter((value) => value > 1e-4));
  const points = spectra.flatMap((values, run) => values.map((value, place) => ({ run, place: place + 1, value })));
  const container = document.getElementById("directions-figures");
  container.replaceChildren();
  addFigure(container, {
    title: say`Singular values, ${say(spectrumSet.value)}`, name: "singular-values",
    draw: (colours, width) => {
      const key = legend(RUNS, colours, width), marginLeft = 52, marginTop = 28 + key.height;
      return Plot.plot({
        ...look(colours, width), height: 300 + key.height, marginLeft, marginTop, marginBottom: 40, grid: true,
        x: { type: "log", label: say`direction →`, ticks: Math.max(3, width / 110), tickFormat: "~s" }, y: { type: "log", label: say`↑ singular value, the largest 1`, tickFormat: "~g", ticks: 4 },
        marks: [Plot.line(points, { x: "place", y: "value", z: "run", stroke: (point) => colours.series[point.run], strokeWidth: 2 }),
          Plot.tip(points, Plot.pointerX({ x: "place", y: "value", title: (point) => `${RUNS[point.run]}\n${say`direction ${point.place}`}: ${point.value.toPrecision(3)}` })),
          ...key.marks(marginLeft, marginTop)],
      });
    },
    table: { head: [say`direction`, ...RUNS], rows: () => d3.range(d3.max(spectra, (values) => values.length)).map((place) => [String(place + 1), ...spectra.map((values) => values[place]?.toPrecision(3) ?? "—")]) },
  });
}

// Words and cosines.
function drawWords() {
  const { rows, overlap, cosines, close, are } = DATA.pairs[wordsSet.value], container = document.getElementById("words-figures");
  const kinds = close ? [say`distant`, say`close`] : [say(are)], lowest = Math.floor(10 * d3.min(cosines.flat())) / 10;
  container.replaceChildren();
  RUNS.forEach((name, run) => {
    const pairs = overlap.map((share, number) => ({ share, cosine: cosines[run][number], close: close ? close[number] : 0, number }));
    addFigure(container, {
      title: name, name: `words-${run + 1}`, caption: `${say`${pairs.length.toLocaleString("en")} pairs: ${say(are)}.`} ${say(DATA.notes[wordsSet.value][run])}`,
      draw: (colours, width) => {
        const key = legend(kinds, colours, width), marginLeft = 46, marginTop = 28 + key.height;
        return Plot.plot({
          ...look(colours, width), height: 340 + key.height, marginLeft, marginTop, marginBottom: 40, grid: true,
          x: { label: say`word overlap →`, domain: [0, 1] }, y: { label: say`↑ cosine`, domain: [lowest, 1] },
          marks: [Plot.dot(pairs, { x: "share", y: "cosine", r: 2.2, fill: (pair) => colours.series[pair.close], fillOpacity: 0.5 }),
            Plot.tip(pairs, Plot.pointer({ x: "share", y: "cosine", title: (pair) => `${rows.map((side) => clip(TEXTS[side[pair.number]], 60)).join("\n")}\n${say`overlap ${pair.share.toFixed(2)}, cosine ${pair.cosine.toFixed(3)}`}` })),
            ...key.marks(marginLeft, marginTop)],
        });
      },
      table: { head: [say`first`, say`second`, say`overlap`, say`cosine`], rows: () => pairs.map((pair) => [...rows.map((side) => TEXTS[side[pair.number]]), pair.share.toFixed(3), pair.cosine.toFixed(3)]) },
    });
  });
}
inEachLanguage(() => {
  fillSelect(spectrumSet, Object.keys(DATA.spectra).map((name) => [name, say(name)]), spectrumSet.value || null);
  fillSelect(wordsSet, Object.keys(DATA.pairs).map((name) => [name, say(name)]), wordsSet.value || null);
});
spectrumSet.addEventListener("change", drawSpectrum);
wordsSet.addEventListener("change", drawWords);

requestAnimationFrame(() => setTimeout(() => {
  redrawAll();
  drawMaps();
  performance.mark("maps");
  setTimeout(() => { drawSpectrum(); drawWords(); performance.mark("charts"); });
  turns.push(drawMaps, drawSpectrum, drawWords);
}));
