// The search takes every word for the beginning of one: "how do I" would find "document" and "index". It is given the
// question without such words, cut where the index cuts (between Chinese and Latin, at dots that are in no number), and
// signs as the index has them; what was typed stays as it is. The name of a key or of a function (NAMES, of
// reference/names.js) stands for itself alone: "encode" is no beginning of "encoder".
const SMALL_WORDS = new Set(
  ("use a an the this that these those it its i me my we our you your he she they them their what which who whom whose how why when where " +
  "do does did done can could shall should will would may might must be am is are was were been to of for in on at by with from as and or if").split(" ")
);
const QUESTION_WORDS = /怎么办|怎么样|怎么|怎样|如何|为什么|什么|哪个|哪些|请问|吗|呢/g;
const CUTS = /(?<=\p{Script=Han})(?=[\w&])|(?<=\w)(?=\p{Script=Han})|\.(?!\d)/gu;
const LETTER = /(?<=\w)-[a-z](?!\w)/gi; // "ctrl-c": a letter alone would be the beginning of many words
const field = document.querySelector("input[name=query]");
const typed = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
Object.defineProperty(field, "value", {
  set: typed.set,
  get() {
    const words = typed.get.call(this).replace(QUESTION_WORDS, " ").replace(CUTS, " ").replace(LETTER, "").split(/\s+/);
    const kept = words.filter((word) => !SMALL_WORDS.has(word.toLowerCase().replace(/\W+$/, "")));
    const text = (kept.length ? kept : words).join(" ").trim();
    return NAMES.has(text) ? `"${text}"` : text.replaceAll("&", "&amp;");
  },
});
