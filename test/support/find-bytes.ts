import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { asOtherClient } from './databases.ts';

/** Which needle was found where. */
export type Find = `${string}: ${string}`;

/** Searches the bytes of every file below a folder for texts in UTF-8, and as JSON and hex write them. */
export function findInFolder(folder: string, needles: readonly string[], skip: RegExp = /^$/): Find[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.flatMap(({ parentPath, name }) => {
    if (skip.test(name)) return [];
    return findIn(name, readFileSync(path.join(parentPath, name)), needles);
  });
}

function findIn(where: string, bytes: Buffer, needles: readonly string[]): Find[] {
  return needles.flatMap((needle): Find[] =>
    formsOf(needle).some((form) => bytes.includes(form)) ? [`${where}: ${needle.slice(0, 40)}`] : [],
  );
}

function formsOf(needle: string): string[] {
  const escaped = needle.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return [needle, escaped, Buffer.from(needle).toString('hex')];
}

/** The same of every row of every table that a Postgres database has, its own statistics included; and of the files of a schema's tables. */
export async function findInPostgres(address: string, needles: readonly string[]): Promise<Find[]> {
  const schema = new URL(address).searchParams.get('schema') ?? '';
  return asOtherClient(address, async (client) => {
    const { rows: tables } = await client.query<{ name: string }>(
      `SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind IN ('r', 'm', 'p') AND n.nspname NOT IN ('pg_toast')`,
    );
    const found: Find[] = [];
    for (const { name } of tables) {
      const { rows } = await client.query<{ text: string }>(`SELECT t::text AS text FROM ${name} t`);
      found.push(...findIn(name, Buffer.from(rows.map(({ text }) => text).join('\n')), needles));
    }
    await client.query('CHECKPOINT');
    const { rows: files } = await client.query<{ name: string; path: string }>(
      `SELECT c.relname AS name, current_setting('data_directory') || '/' || pg_relation_filepath(c.oid) AS path
       FROM pg_class c WHERE pg_relation_filepath(c.oid) IS NOT NULL AND (c.relnamespace = to_regnamespace($1)
         OR c.oid IN (SELECT reltoastrelid FROM pg_class t WHERE t.relnamespace = to_regnamespace($1)))`,
      [schema],
    );
    for (const { name, path: file } of files) found.push(...findIn(`${name} (file)`, readFileSync(file), needles));
    return found;
  });
}
