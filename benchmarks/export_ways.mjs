// transformers.js in node: exports.py starts it with a job in JSON, as it does export_ways.py.
import fs from "node:fs";
import path from "node:path";
import { AutoModel, AutoTokenizer, env } from "@huggingface/transformers";

env.allowRemoteModels = false;
const job = JSON.parse(fs.readFileSync(process.argv[2], "utf-8"));
const tokenizer = await AutoTokenizer.from_pretrained(job.folder);
const model = await AutoModel.from_pretrained(job.folder, {
  dtype: "fp32",
  model_file_name: path.basename(job.file, ".onnx"),
  session_options: { intraOpNumThreads: job.threads },
});

async function inBatches(texts, size) {
  const found = [];
  for (let start = 0; start < texts.length; start += size) {
    const inputs = await tokenizer(texts.slice(start, start + size), { padding: true, truncation: true });
    const { sentence_embedding } = await model(inputs);
    found.push(...sentence_embedding.tolist());
  }
  return found;
}

const vectors = await inBatches(job.texts, 32);
const seconds = Object.fromEntries(job.batches.map((size) => [size, []]));
for (let round = 0; round < job.rounds; round++) {
  for (const size of job.batches) {
    const began = performance.now();
    await inBatches(job.timed, size);
    seconds[size].push((performance.now() - began) / 1000);
  }
}
fs.writeFileSync(job.out, JSON.stringify({ vectors, seconds }));
