import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { initCommand } from '../../src/cli/init.ts';
import { backfillCommand, syncCommand } from '../../src/cli/sync.ts';
import { runInProcess } from '../cli/in-process.ts';
import { serveUntilEnd } from '../faults/port-of.ts';
import { asOther, rowsIn, tempFolder } from '../support/temp-warehouse.ts';
import { ENTERPRISE } from './services/enterprise.ts';
import { FRAMEWORKS } from './services/frameworks.ts';
import { NODE } from './services/node.ts';
import { type Item, type Product, recordsOf, serverOf } from './services/service.ts';
import { VENDORS } from './services/vendors.ts';

const ALL = [...ENTERPRISE, ...FRAMEWORKS, ...NODE, ...VENDORS];
const PRODUCTS = ALL.filter(({ name }) => name.includes(process.env['SERVICE'] ?? ''));

/** What is reached so far; at least 22 right and none wrong are wanted. */
const REACHED = 32;

/** What the written profiles extend. */
const FAMILIES = 'couchdb drf jsonapi loopback loopback odata odata-next'.split(' ');

const failed = (error: unknown) => ({ code: 1, stdout: String(error), stderr: JSON.stringify(error) });

/**
 * Runs `init`, the first backfill, and a sync after some records have changed, as a user would. Returns a line that begins
 * with `right`, `wrong`, or with `told` where the copy is not complete and the user is told why.
 */
async function copyService(product: Product): Promise<string> {
  const { name, credential, base = '', options = [], fields } = product;
  const listings = Object.fromEntries(
    Object.entries(product.sizes).map(([key, size]) => [key, recordsOf(product, size)]),
  );
  const log: string[] = [];
  const url = (await serveUntilEnd(serverOf(product, listings, (line) => log.push(line)))) + base;
  const folder = tempFolder();
  const began = performance.now();
  const login = credential === undefined ? [] : ['--credential-env', 'KEY'];
  const user = credential?.user === undefined ? [] : ['--user', credential.user];
  const args = ['--yes', '--url', url, '--source', 'shop', '--warehouse', 'sqlite:shop.db'];
  const env = { KEY: credential?.secret };
  let [isOk, text] = [true, ''];
  const run = async (make: typeof initCommand, given: readonly string[] = []): Promise<void> => {
    const { code, stdout, stderr } = await runInProcess(make, given, folder, { env }).catch(failed);
    isOk &&= code === 0;
    text += stdout + stderr;
  };
  await run(initCommand, [...args, ...login, ...user, ...options]);
  const requests = Number(/Found with (\d+) requests/.exec(text)?.[1] ?? log.length);
  const isInAddress = credential !== undefined && log.some((line) => line.includes(credential.secret));
  expect.soft(isInAddress && !options.includes('query:key'), name).toBe(false);
  const price = requests > 60 + 25 * Object.keys(listings).length ? 'too many requests' : 'requests';
  const profile = path.join(folder, 'config/shop.profile.yaml');
  const profileText = existsSync(profile) ? readFileSync(profile, 'utf8') : '';
  const family = /^extends: .*/m.exec(profileText)?.[0] ?? '';
  // A line for each listing, and a few for the whole service.
  const length = profileText.split('\n').filter((line) => line.trim() !== '' && !/^ *#/.test(line)).length;
  expect.soft(family === '' ? 0 : length, name).toBeLessThanOrEqual(7 + Object.keys(listings).length);
  if (existsSync(profile)) await run(backfillCommand);
  let missed = missing(listings, fields, path.join(folder, 'shop.db'));
  if (isOk && missed.length === 0) {
    for (const items of Object.values(listings)) revise(product, items[1]);
    await run(syncCommand);
    missed = missing(listings, fields, path.join(folder, 'shop.db'));
  }
  const faults = isOk ? [] : (text.match(/(?:FAIL|Error:|"partial"|"failed"|"error").*/g) ?? []);
  const said = [...missed, ...faults].join(' | ');
  if (process.env['SHOW']) console.log([name, ...log, profileText, text, said].join('\n'));
  const seconds = Math.round((performance.now() - began) / 100) / 10;
  const verdict = faults.length > 0 ? 'told' : isOk && missed.length === 0 ? 'right' : 'wrong';
  return `${verdict} ${requests} ${price} ${seconds} s ${name} ${family} ${said}`.slice(0, 500);
}

function revise({ fields: [, title, changed], stamp = (time) => time }: Product, item: Item | undefined): void {
  if (item === undefined) return;
  item[title] = `${String(item[title])}, revised`;
  item[changed] = stamp(new Date().toISOString());
}

/** The listings that no table of the copy equals, in keys and texts. */
function missing(listings: Record<string, Item[]>, fields: Product['fields'], file: string): string[] {
  if (!existsSync(file)) return ['no copy'];
  const named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'";
  const names = asOther(file, (db) => db.prepare<[], string>(named).pluck().all());
  const tables = names.map((name) => rowsIn(file, `SELECT * FROM "${name}"`));
  return Object.entries(listings).flatMap(([name, items]) =>
    tables.some((rows) => isEqual(rows, items, fields)) ? [] : [`${name} is not in the copy`],
  );
}

/** True if the rows are as many as the records, and each record's text is in one that has its key as well. */
function isEqual(rows: Record<string, unknown>[], items: Item[], [key, title]: Product['fields']): boolean {
  const keys = new Map<unknown, string>(items.map((item) => [item[title], String(item[key])]));
  const found = rows.flatMap((row) => {
    const values = Object.values(row);
    return values.filter((text) => keys.has(text) && values.some((value) => String(value) === keys.get(text)));
  });
  return rows.length === items.length && new Set(found).size === items.length;
}

it(`init alone gets a right copy of ${REACHED} services (22 are wanted), and no wrong one`, async () => {
  const left = [...PRODUCTS];
  const lines: string[] = [];
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) lines.push(await copyService(next));
  };
  await Promise.all([work(), work(), work(), work()]);
  console.log(lines.toSorted().join('\n'));
  expect(lines.filter((line) => line.startsWith('wrong') || line.includes('too many requests'))).toEqual([]);
  expect(lines.filter((line) => line.startsWith('right')).length).toBeGreaterThanOrEqual(REACHED);
  expect(lines.flatMap((line) => /extends: family-(\S+)/.exec(line)?.[1] ?? []).toSorted()).toEqual(FAMILIES);
});
