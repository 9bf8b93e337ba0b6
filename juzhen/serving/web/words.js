// The words of the page in both languages, and which one is shown.
const many = (number, several, one) => (number === 1 ? `1 ${one}` : `${number} ${several}`);
export const WORDS = {
  en: {
    skip: "To the content", key: "API key", enter: "Enter", search: "Search", query: "Type a question or a sentence",
    pair: "Two texts", pairNote: "The score, and the words that carry it: each word is left out once, and the score is computed again.",
    first: "First text", second: "Second text", score: "score", brings: "brings the texts together", parts: "keeps them apart", allWords: "All words with their weights",
    file: "A file of pairs", fileNote: "Drop a .csv, .tsv, .txt, .jsonl or .xlsx here. This server reads it, and keeps nothing of it.",
    choose: "Choose a file", example: "Try an example", gold: "Label", header: "First row holds names", sheet: "Sheet", firstRows: "The first rows of the file", reading: "The file is read …", by: "Scored by", start: "Score", stop: "Stop", progress: "Progress",
    save: "Download with scores", docs: "API", offline: "This page asks nothing of any other server.", none: "none", column: (number) => `column ${number}`,
    language: "中文", theme: { system: "◐ system", light: "☀ light", dark: "☾ dark" }, themeLabel: "Colours",
    encoder: (card) => `${card.id}: ${card.dimension} dimensions, up to ${card.max_tokens} tokens`, judge: (card) => `cross-encoder ${card.id}`,
    indexed: (index) => `${many(index.texts, "texts", "text")} in ${index.name}. Results come as you type, in two ways side by side.`, way: "Way of searching", otherWay: "Second way of searching",
    ways: { dense: "embeddings", bm25: "BM25", hybrid: "both fused", rerank: "cross-encoder" }, otherPlace: (place) => `${place}. in the other list`, otherLacks: "not in the other list", nothing: "Nothing was found.", compare: "compare with the query",
    computing: "computing …", word: "word", weight: "weight", text: "text",
    rows: (rows, empty, leftOut) => `${many(rows, "pairs", "pair")}${empty ? `; ${many(empty, "rows with an empty text are", "row with an empty text is")} left out` : ""}${leftOut.rows ? `; ${many(leftOut.rows, "faulty rows are", "faulty row is")} left out, the first: ${leftOut.first}` : ""}`, noRows: "No row has both texts. Choose other columns.", oneColumn: "The file has one column only; expected a text in each of two.",
    scored: (done, rows) => `${done} of ${many(rows, "pairs", "pair")}`, ready: (rows, seconds) => `${many(rows, "pairs", "pair")} in ${seconds} s`, stopped: (done) => `Stopped after ${many(done, "pairs", "pair")}`,
    mean: "mean", median: "median", range: "range", spearman: "Spearman with the label", pairs: (rows) => many(rows, "pairs", "pair"), highest: "Highest first", lowest: "Lowest first", shown: (shown, rows) => `${shown} of ${many(rows, "rows", "row")} shown`,
    chart: (rows, low, high) => `Histogram of the scores of ${many(rows, "pairs", "pair")}, from ${low} to ${high}`, unreachable: "The server does not answer.", badKey: "The server wants an API key.",
    examples: ["How do I return an item?", "I want to send a product back"],
  },
  zh: {
    skip: "跳到正文", key: "API 密钥", enter: "确定", search: "搜索", query: "输入问题或句子",
    pair: "两段文本", pairNote: "相似度分数，以及决定分数的词：每次去掉一个词，重新计算分数。",
    first: "文本一", second: "文本二", score: "分数", brings: "使两段文本更接近", parts: "使它们更远", allWords: "全部词及权重",
    file: "句对文件", fileNote: "把 .csv、.tsv、.txt、.jsonl 或 .xlsx 拖到这里。文件由本服务器读取，不保存。",
    choose: "选择文件", example: "试用示例", gold: "标签", header: "第一行是列名", sheet: "工作表", firstRows: "文件的前几行", reading: "正在读取文件……", by: "打分模型", start: "打分", stop: "停止", progress: "进度",
    save: "下载带分数的文件", docs: "接口", offline: "本页不访问任何其他服务器。", none: "无", column: (number) => `第 ${number} 列`,
    language: "English", theme: { system: "◐ 系统", light: "☀ 浅色", dark: "☾ 深色" }, themeLabel: "颜色",
    encoder: (card) => `${card.id}：${card.dimension} 维，最多 ${card.max_tokens} 个 token`, judge: (card) => `交叉编码器 ${card.id}`,
    indexed: (index) => `${index.name} 中有 ${index.texts} 段文本。实时搜索，两种方式并排比较。`, way: "搜索方式", otherWay: "第二种搜索方式",
    ways: { dense: "向量", bm25: "BM25", hybrid: "两者融合", rerank: "交叉编码器" }, otherPlace: (place) => `另一列第 ${place} 位`, otherLacks: "另一列没有", nothing: "没有找到。", compare: "与查询比较",
    computing: "计算中……", word: "词", weight: "权重", text: "文本",
    rows: (rows, empty, leftOut) => `${rows} 对${empty ? `，另有 ${empty} 行含空文本，已跳过` : ""}${leftOut.rows ? `，另有 ${leftOut.rows} 个坏行，已跳过，第一个：${leftOut.first}` : ""}`, noRows: "没有一行同时含有两段文本，请选择其他列。", oneColumn: "文件只有一列，需要两列文本。",
    scored: (done, rows) => `${done} / ${rows} 对`, ready: (rows, seconds) => `${rows} 对，用时 ${seconds} 秒`, stopped: (done) => `已停止，完成 ${done} 对`,
    mean: "均值", median: "中位数", range: "范围", spearman: "与标签的 Spearman", pairs: (rows) => `${rows} 对`, highest: "从高到低", lowest: "从低到高", shown: (shown, rows) => `显示 ${rows} 行中的 ${shown} 行`,
    chart: (rows, low, high) => `${rows} 对分数的直方图，从 ${low} 到 ${high}`, unreachable: "服务器没有应答。", badKey: "服务器需要 API 密钥。",
    examples: ["怎么退货", "东西不想要了想退掉"],
  },
};

export const EXAMPLE = `text_a\ttext_b\tlabel
怎么退货\t东西想退掉怎么办\t1
什么时候发货\t多久能寄出来\t1
怎么修改绑定的手机号\t在哪里换绑手机号\t1
信用卡什么时候出账单\t信用卡账单日是哪一天\t1
今天天气很好\t今天是个好天气\t1
怎么退货\t什么时候发货\t0
怎么修改绑定的手机号\t手机号被别人绑定了怎么办\t0
信用卡什么时候出账单\t信用卡怎么申请提额\t0
今天天气很好\t我想吃苹果\t0
一个男人在弹吉他\t一只猫在睡觉\t0
`;

const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
export function remember(name, value) { try { localStorage.setItem(name, value); } catch { /* private windows keep nothing */ } }
export const recall = stored;

let language = stored("juzhen-language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
if (!(language in WORDS)) language = "en";
const listeners = [];

/** A word, or what its function makes of values. */
export function say(name, ...values) {
  const word = WORDS[language][name];
  return typeof word === "function" ? word(...values) : word;
}
/** Calls a function now, and whenever the language changes. */
export function inEachLanguage(write) { listeners.push(write); write(); }
export function turnLanguage() {
  language = language === "en" ? "zh" : "en";
  remember("juzhen-language", language);
  listeners.forEach((write) => write());
}
inEachLanguage(() => {
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  document.querySelectorAll("[data-word]").forEach((part) => { part.textContent = say(part.dataset.word); });
  document.querySelectorAll("[data-label]").forEach((part) => { part.setAttribute("aria-label", say(part.dataset.label)); });
  document.querySelectorAll("[data-placeholder]").forEach((part) => { part.placeholder = say(part.dataset.placeholder); });
});
