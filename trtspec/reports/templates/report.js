"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = read("report-figures");
  const clone = (value) => JSON.parse(JSON.stringify(value));

  // Colours are names such as "@speculative" in the data; their values come from the style sheet of the moment.
  const paint = (value, style) => {
    if (typeof value === "string") return value.startsWith("@") ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    if (Array.isArray(value)) return value.map((item) => paint(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item, style)]));
    }
    return value;
  };
  const themed = (figure) => paint(clone(figure), getComputedStyle(document.documentElement));
  const config = {responsive: true, displaylogo: false, displayModeBar: false};

  const chosen = (card) => [...card.querySelectorAll("input:checked")].map((input) => input.value).join("|");
  const draw = (card) => {
    const target = card.querySelector(".plot");
    const figure = charts[card.id][chosen(card)];
    if (!figure) return;
    const {data, layout} = themed(figure);
    Plotly.react(target, data, layout, config);
  };
  const cards = [...document.querySelectorAll("figure.card")].filter((card) => charts[card.id]);
  const drawAll = () => cards.forEach(draw);

  // Plotly travels gzipped; unpacked, it runs as a script of this page.
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };
  const listen = () => {
    cards.forEach((card) => card.addEventListener("change", () => draw(card)));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    window.matchMedia("print").addEventListener("change", drawAll);
    window.addEventListener("beforeprint", () => {
      drawAll();
      cards.forEach((card) => Plotly.relayout(card.querySelector(".plot"), {width: 680}));
    });
    window.addEventListener("afterprint", () => {
      cards.forEach((card) => Plotly.purge(card.querySelector(".plot")));
      drawAll();
    });
  };
  const start = async () => {
    await unpack(document.getElementById("plotly").textContent);
    drawAll();
    listen();
    document.documentElement.dataset.drawn = "true";
  };
  start().catch(() => document.querySelectorAll(".unpacked").forEach((note) => { note.hidden = false; }));

  const search = document.getElementById("pair-search");
  const only = document.getElementById("pair-different");
  if (search && only) {
    const pairs = [...document.querySelectorAll(".pair")];
    const count = document.getElementById("pair-count");
    const apply = () => {
      const words = search.value.trim().toLowerCase();
      const shown = pairs.filter((pair) => {
        pair.hidden = (only.checked && pair.dataset.same === "true") || !pair.textContent.toLowerCase().includes(words);
        return !pair.hidden;
      });
      count.textContent = `${shown.length} of ${pairs.length} prompts`;
    };
    search.addEventListener("input", apply);
    only.addEventListener("change", apply);
  }
})();
