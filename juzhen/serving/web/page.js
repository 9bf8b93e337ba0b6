// The page of a server: search as one types, and two texts with the words that carry their score.
import { WORDS, inEachLanguage, recall, remember, say, turnLanguage } from "./words.js";
import { ask, at, complain, enter, later, make, number } from "./parts.js";
import { startFile } from "./pairs.js";

// Colours and language.
const THEMES = ["system", "light", "dark"];
let theme = THEMES.includes(recall("juzhen-theme")) ? recall("juzhen-theme") : "system";
function showTheme() {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  at("theme").textContent = say("theme")[theme];
  at("theme").setAttribute("aria-label", `${say("themeLabel")}: ${say("theme")[theme]}`);
}
at("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  remember("juzhen-theme", theme);
  showTheme();
});
at("language").addEventListener("click", turnLanguage);
inEachLanguage(() => { at("language").textContent = say("language"); showTheme(); });

// What is served.
let cards = [], index = null;
async function connect() {
  complain(null);
  cards = (await ask("v1/models")).data;
  index = await ask("index").catch((error) => { if (error.status === 404) return null; throw error; });
  at("key-form").hidden = true;
  at("search").hidden = index === null;
  if (index) fillWays();
  showServed();
  startFile(cards);
  examplePair();
}
function showServed() {
  at("models").textContent = cards.map((card) => say(card.task === "embeddings" ? "encoder" : "judge", card)).join(" · ");
  if (index) at("search-note").textContent = say("indexed", index);
}
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(at("key").value.trim());
  connect().catch(complain);
});

// Search: two ways side by side.
const ways = [at("way-left"), at("way-right")], lists = [at("hits-left"), at("hits-right")];
const tabs = [...document.querySelectorAll(".tabs button")];
/** Where there is room for one list, the tabs choose which. */
function showTabs(side = Number(at("hits").dataset.side)) {
  at("hits").dataset.side = side;
  tabs.forEach((tab, place) => {
    tab.textContent = ways[place].selectedOptions[0]?.text ?? "";
    tab.setAttribute("aria-pressed", place === side);
  });
}
tabs.forEach((tab, side) => tab.addEventListener("click", () => showTabs(side)));
function fillWays() {
  const modes = index.modes.flatMap((mode) => (index.reranks ? [mode, `${mode}+rerank`] : [mode]));
  const runs = index.models.length > 1 ? index.models : [];
  const all = [...modes, ...runs.slice(1).map((run) => `dense@${run}`)];
  const before = ways.map((way) => way.value);
  ways.forEach((way, side) => {
    const options = side ? ["none", ...all] : all;
    way.replaceChildren(...options.map((mode) => make("option", { value: mode }, mode === "none" ? say("none") : wayName(mode, runs))));
    if (options.includes(before[side])) way.value = before[side];
    else if (side) way.value = [`dense@${runs[1]}`, "dense+rerank", "hybrid", "none"].find((mode) => options.includes(mode));
  });
  showTabs();
}
/** A way of searching in words; with two runs the embeddings have the name of theirs. */
function wayName(mode, runs) {
  const [way, ...run] = mode.split("@"), parts = way.split("+").map((part) => say("ways")[part]).join(" + ");
  return runs.length && way.startsWith("dense") ? `${parts} · ${run.join("@") || runs[0]}` : parts;
}
const search = later(120, async (signal) => {
  const query = at("query").value.trim(), answers = [];
  if (!query) { lists.forEach((list) => list.replaceChildren()); return; }
  for (const way of ways) {
    const [how, ...run] = way.value.split("@"), [mode, rerank] = how.split("+"), model = run.join("@") || null;
    answers.push(mode === "none" ? null : await ask("search", { query, top_k: 10, mode, model, rerank: Boolean(rerank), truncate: true }, signal));
  }
  complain(null);
  const places = answers.map((answer) => new Map(answer?.results[0].map((hit, place) => [hit.index, place + 1])));
  answers.forEach((answer, side) => {
    const hits = answer?.results[0] ?? [], low = Math.min(0, ...hits.map((hit) => hit.score)), high = Math.max(...hits.map((hit) => hit.score));
    lists[side].replaceChildren(...hits.map((hit) => hitItem(hit, query, (hit.score - low) / (high - low || 1), answers[1 - side] && places[1 - side].get(hit.index))));
    if (answer && !hits.length) lists[side].append(make("li", { class: "note" }, say("nothing")));
  });
});
/** Names of metadata that answers a text, as the columns of FAQ files are called. */
const ANSWER = /^((the |standard |best )?(answers?|reply|replies|response|solution)( text)?|(标准|参考|最佳)?(答案|答|回答|答复|回复|解答|解决方案))$/i;
function hitItem(hit, query, share, elsewhere) {
  const fill = make("span", { class: "fill" });
  fill.style.width = `${100 * Math.max(0, share)}%`;
  const known = Object.entries(hit.metadata), isAnswer = ([name, value]) => ANSWER.test(name.trim()) && typeof value === "string" && value.trim();
  const answer = known.filter(isAnswer).map(([, value]) => make("span", { class: "answer" }, value));
  const facts = [hit.id === String(hit.index) ? null : hit.id, ...known.filter((entry) => !isAnswer(entry)).map(([name, value]) => `${name}: ${value}`), elsewhere === undefined ? say("otherLacks") : elsewhere && say("otherPlace", elsewhere)];
  return make("li", {}, make("button", { type: "button", class: "hit", title: say("compare"), onclick: () => compare(query, hit.text) },
    fill, make("span", { class: "number" }, number(hit.score)), make("span", {}, hit.text), ...answer, make("span", { class: "facts" }, facts.filter(Boolean).join(" · "))));
}
at("query").addEventListener("input", search);
ways.forEach((way) => way.addEventListener("change", () => { showTabs(); search(); }));
at("search").addEventListener("keydown", (event) => {
  const steps = { ArrowDown: 1, ArrowUp: -1 }, stops = [at("query"), ...[...document.querySelectorAll(".hit")].filter((hit) => hit.offsetParent)];
  const place = stops.indexOf(document.activeElement);
  if (!(event.key in steps) || place < 0) return;
  event.preventDefault();
  stops[Math.max(0, Math.min(stops.length - 1, place + steps[event.key]))].focus();
});

// Two texts.
const sides = ["first", "second"];
let weighed = null;
const weigh = later(250, async (signal) => {
  const [first, second] = sides.map((side) => at(side).value);
  if (!first.trim() || !second.trim()) { at("pair").hidden = true; return; }
  at("pair-state").textContent = say("computing");
  try {
    weighed = await ask("words", { first, second, truncate: true }, signal);
    at("pair-state").textContent = "";
    showPair();
  } catch (error) {
    if (error.name === "AbortError") return;
    at("pair").hidden = true;
    at("pair-state").textContent = error.message;
  }
});
function showPair() {
  const weights = sides.flatMap((side) => weighed[side].filter((part) => part.weight !== null).map((part) => ({ ...part, side })));
  const most = Math.max(...weights.map((part) => Math.abs(part.weight)), 1e-9);
  sides.forEach((side) => at(`weighed-${side}`).replaceChildren(...weighed[side].map((part) => {
    if (part.weight === null) return part.text;
    const mark = make("mark", { class: part.weight < 0 ? "against" : "for", title: number(part.weight) }, part.text);
    mark.style.setProperty("--share", Math.abs(part.weight) / most);
    return mark;
  })));
  at("score").value = number(weighed.score);
  const rows = weights.sort((one, other) => other.weight - one.weight).map((part) => make("tr", {}, make("td", {}, part.text), make("td", {}, say(part.side)), make("td", { class: "number" }, number(part.weight))));
  at("word-table").replaceChildren(make("thead", {}, make("tr", {}, ...["word", "text", "weight"].map((name) => make("th", { scope: "col", class: name === "weight" && "number" }, say(name))))), make("tbody", {}, ...rows));
  at("pair").hidden = false;
}
function compare(first, second) {
  [at("first").value, at("second").value] = [first, second];
  weigh();
  at("first").focus();
}
/** A newcomer sees at once what the page does; what somebody has typed stays. */
function examplePair() {
  const isExample = Object.values(WORDS).some((words) => sides.every((side, place) => at(side).value === words.examples[place]));
  if (isExample || sides.every((side) => !at(side).value)) sides.forEach((side, place) => { at(side).value = say("examples")[place]; });
  weigh();
}
sides.forEach((side) => at(side).addEventListener("input", weigh));
inEachLanguage(() => { if (cards.length) { showServed(); if (index) { fillWays(); search(); } examplePair(); } });

connect().catch(complain);
