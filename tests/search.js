// Prints the first hit of each query in the search of the built docs site, as JSON.
//
//     node tests/search.js SITE QUERY...
//
// It runs the worker of the site, which a browser runs, in a context with the few names it needs.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const folder = path.join(site, "assets", "javascripts", "workers");
const script = fs.readdirSync(folder).find((name) => /^search.*\.js$/.test(name));

let handle;
let answered;
const context = {
  URL,
  addEventListener: (_, handler) => { handle = handler; },
  location: new URL("file:///index.html"),
  postMessage: (message) => answered(message),
};
context.self = context;
vm.runInNewContext(fs.readFileSync(path.join(folder, script), "utf8"), context);

const ask = (type, data) => new Promise((resolve) => {
  answered = resolve;
  handle({ data: { type, data } });
});

(async () => {
  const index = fs.readFileSync(path.join(site, "search", "search_index.json"), "utf8");
  await ask(0, { options: { suggest: false }, ...JSON.parse(index) });
  const hits = {};
  for (const query of queries) {
    const { data } = await ask(2, query);
    hits[query] = data.items.length ? data.items[0][0].location : null;
  }
  process.stdout.write(JSON.stringify(hits));
})();
