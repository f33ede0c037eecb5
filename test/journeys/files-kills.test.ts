import { createHash } from 'node:crypto';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { storeOf } from '../../src/config/profile/file-fields.ts';
import type { FileRow } from '../../src/database/own-tables.ts';
import type { ObjectStore } from '../../src/object-store/object-store.ts';
import { openObjectStore } from '../../src/object-store/open-stores.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { runCommand, startCommand } from '../support/command.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { type Random, randomFrom } from '../support/random.ts';
import { picture, type PictureService, sha256 } from '../sync/files/picture-service.ts';
import { pictureStage, type PictureStage } from '../sync/files/picture-stage.ts';

interface KillPlan {
  database: TestDatabase;
  kills: number;
  seed: number;
}

const FILES = { at: '/images/{id}/file', when: 'has_file' };
const RECORDS = 60;
/** Some files show the same content. */
const CONTENTS = 45;
const LONGEST_MS = 1_500;
/** The process itself takes most of a second to start, and many where the machine is busy; one with nothing to ask ends. */
const FIRST_ASKED_MS = 60_000;

interface Stage extends PictureStage {
  store: ObjectStore;
}

/**
 * Starts runs, kills each with SIGKILL at a random moment and looks at the wreck: every content that is remembered is
 * in the store, and no file shows two. When a run gets through, all files are those of the service, a part of which
 * then changes. At the end `files prune` finds whatever was left over.
 */
async function filesKillLoop({ database, kills, seed }: KillPlan): Promise<{ midFiles: number }> {
  const random = randomFrom(seed);
  const stage = await killStage(database);
  const { service } = stage;
  for (let n = 0; n < RECORDS; n += 1) renew(service, `r${n}`, random);
  let midFiles = 0;
  for (let kill = 1; kill <= kills; kill += 1) {
    const told = `SEED=${seed}, kill ${kill}`;
    const before = service.asked.length;
    const code = await startAndKill(stage, random);
    if (service.asked.length > before && code === null) midFiles += 1;
    expect({ told, wreckage: await wreckage(stage) }).toEqual({ told, wreckage: [] });
    if (code === null) continue;
    expect({ told, code, unlike: await unlike(stage) }).toEqual({ told, code: 0, unlike: [] });
    for (let n = 0; n < RECORDS; n += 1) if (random.chance(0.4)) renew(service, `r${n}`, random);
  }
  await expectAllWell(stage, seed);
  return { midFiles };
}

async function killStage(database: TestDatabase): Promise<Stage> {
  const stage = await pictureStage(database, { files: FILES, settings: { store: 'disk:files', grace: '0s' } });
  const address = storeOf('disk:files', 'blog', stage.folder);
  if (address === null) throw new Error('disk:files is no store');
  const signal = new AbortController().signal;
  const store = await openObjectStore(address, {
    clock: systemClock,
    env: {},
    signal,
    fileMode: 0o600,
    mayCreate: true,
  });
  return { ...stage, store };
}

function renew(service: PictureService, id: string, random: Random): void {
  service.put({ id, has_file: true, change: random.whole(1, 1_000_000) });
  // Large enough to come in several pieces.
  const content = `content ${random.whole(1, CONTENTS)} `;
  service.files.set(`/v1/images/${id}/file`, picture(content.repeat(2_000)));
}

/** Null if it was killed, else its exit code. */
async function startAndKill({ service, folder, config }: Stage, random: Random): Promise<number | null> {
  const before = service.asked.length;
  const command = startCommand(['sync', '--config', config], folder);
  const ended = command.ended.then(() => true);
  const until = Date.now() + FIRST_ASKED_MS;
  while (service.asked.length === before && Date.now() < until && !(await Promise.race([delay(2, false), ended])));
  await Promise.race([delay(random.spread(1, LONGEST_MS)), ended]);
  command.kill('SIGKILL');
  const { code, stderr } = await command.ended;
  expect(stderr).not.toMatch(/"level":(50|60)/);
  return code;
}

function rowsOf(stage: Stage): Promise<FileRow[]> {
  return stage.read((db) => {
    const isThere = db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = '_sync_files'`).get() !== undefined;
    return isThere ? db.prepare<[], FileRow>('SELECT * FROM _sync_files').all() : [];
  });
}

/** What a kill must never leave behind. */
async function wreckage(stage: Stage): Promise<string[]> {
  const rows = await rowsOf(stage);
  const objects = await objectsIn(stage.store);
  const shown = Map.groupBy(
    rows.filter(({ valid_to }) => valid_to === null),
    ({ record_id }) => record_id,
  );
  return [
    ...rows.flatMap(({ record_id, sha256: hash }) =>
      hash === null || objects.has(hash) ? [] : [`${record_id}: ${hash} is not in the store`],
    ),
    ...[...shown].flatMap(([id, several]) => (several.length === 1 ? [] : [`${id} shows ${several.length} contents`])),
  ];
}

/** Hashes of what is in the store. Throws if one is not what its name says. */
async function objectsIn(store: ObjectStore): Promise<Set<string>> {
  const found = new Set<string>();
  for await (const { sha256: name } of store.list()) {
    const hash = createHash('sha256')
      .update(await buffer(await store.read(name)))
      .digest('hex');
    if (hash !== name) throw new Error(`${name} is ${hash}`);
    found.add(name);
  }
  return found;
}

/** Files of the copy that are not those of the service. */
async function unlike(stage: Stage): Promise<string[]> {
  const rows = (await rowsOf(stage)).filter(({ valid_to }) => valid_to === null);
  const shown = new Map(rows.map(({ record_id, sha256: hash }) => [record_id, hash]));
  return [...stage.service.records.keys()].filter((id) => {
    const bytes = stage.service.files.get(`/v1/images/${id}/file`);
    return bytes == null || shown.get(id) !== sha256(bytes);
  });
}

async function expectAllWell(stage: Stage, seed: number): Promise<void> {
  const told = `SEED=${seed}`;
  const run = (...args: string[]) => runCommand([...args, '--config', stage.config], stage.folder);
  const { code } = await run('sync');
  expect({ told, code, unlike: await unlike(stage) }).toEqual({ told, code: 0, unlike: [] });
  const pruned = await run('files', 'prune');
  expect({ told, code: pruned.code, stderr: pruned.stderr }).toMatchObject({ told, code: 0 });
  const named = new Set((await rowsOf(stage)).flatMap(({ sha256: hash }) => (hash === null ? [] : [hash])));
  expect([...(await objectsIn(stage.store))].toSorted()).toEqual([...named].toSorted());
  const verified = await run('files', 'verify');
  expect({ told, code: verified.code, stderr: verified.stderr }).toMatchObject({ told, code: 0 });
  expect(path.isAbsolute(stage.store.spool)).toBe(true);
}

const seed = Number(process.env['SEED']);
const KILLS = longOrShort(100, 3);

describe.each(eitherDatabase(import.meta.filename))(`files under kill -9 (SEED=${seed}), on $name`, (database) => {
  it('are neither lost nor doubled in a folder, and prune finds what is left over', async () => {
    const { midFiles } = await filesKillLoop({ database, kills: KILLS, seed });
    expect(midFiles).toBeGreaterThan(longOrShort(25, 0));
  });
});
