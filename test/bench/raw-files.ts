import { mkdirSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import path from 'node:path';
import { Agent, request } from 'undici';

/**
 * The yardstick for files: what a programmer would write who knows the ids and checks nothing. Eight in flight, each
 * written beside, made durable and renamed to its id; the folder is not. Arguments: base URL, API key, folder, files.
 */
const [base = '', key = '', folder = '', count = '0'] = process.argv.slice(2);
const IN_FLIGHT = 8;

mkdirSync(folder, { recursive: true });
const agent = new Agent({ connections: IN_FLIGHT });
const headers = { authorization: `Bearer ${key}` };
let next = 0;

async function fetchSome(): Promise<void> {
  while (next < Number(count)) {
    const id = `img_${next++}`;
    const { statusCode, body } = await request(`${base}/v1/images/${id}/file`, { dispatcher: agent, headers });
    if (statusCode !== 200) throw new Error(`${id} was answered ${statusCode}`);
    await written(path.join(folder, id), body);
  }
}

async function written(file: string, body: AsyncIterable<Uint8Array>): Promise<void> {
  {
    await using handle = await open(`${file}.part`, 'w');
    await handle.writeFile(body);
    await handle.sync();
  }
  await rename(`${file}.part`, file);
}

await Promise.all(Array.from({ length: IN_FLIGHT }, fetchSome));
await agent.close();
