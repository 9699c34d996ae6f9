// For each line of standard input, a document as a JSON string: a line with the elements that may
// be links, as JSON: [tag, attributes, text of a title]. Argument: a node_modules folder.
import { createInterface } from "node:readline";

const { parse } = await import(`${process.argv[2]}/parse5/dist/index.js`);
const wanted = new Set(["a", "area", "base", "frame", "iframe", "link", "meta", "title"]);

function elements(html) {
  const found = [];
  const left = [[parse(html, { scriptingEnabled: false }), false]];
  while (left.length) {
    const [node, inSvg] = left.pop();
    if (wanted.has(node.tagName)) {
      const attributes = {};
      for (const { name, prefix, value } of node.attrs) {
        attributes[prefix ? `${prefix}:${name}` : name] = value;
      }
      const isTitle = node.tagName === "title" && !inSvg;
      const text = isTitle ? node.childNodes.map((child) => child.value ?? "").join("") : null;
      found.push([node.tagName, attributes, text]);
    }
    for (const child of [...(node.childNodes ?? [])].reverse()) {
      left.push([child, inSvg || node.tagName === "svg"]);
    }
  }
  return found;
}

for await (const line of createInterface({ input: process.stdin, terminal: false })) {
  process.stdout.write(JSON.stringify(elements(JSON.parse(line))) + "\n");
}
