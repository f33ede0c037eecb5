import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import { deletesCommand } from '../../src/cli/deletes.ts';
import { deliveriesCommand } from '../../src/cli/deliveries.ts';
import { statusCommand } from '../../src/cli/status.ts';
import { inboxAddress, openInbox } from '../../src/database/databases.ts';
import { ConfigError } from '../../src/model/errors.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { rowsOf } from '../support/copied-cells.ts';
import { asOtherClient, DATABASES, POSTGRES, SQLITE, type TestDatabase } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';
import { sampled } from '../support/length.ts';
import { asRole, limitedRole } from '../support/limited-role.ts';
import { runInProcess } from './in-process.ts';

const SECRET = `whsec_${Buffer.from('a secret that is long enough').toString('base64')}`;
// As many images as posts that point to them.
const RECORDS = { content: 30, images: 30, analytics: 10 };

/** Every command that only reads, or that is about what is there already. */
const READING = [
  { name: 'status', make: statusCommand, args: [], missing: 'warehouse_missing' },
  { name: 'deletes list', make: deletesCommand, args: ['list'], missing: 'warehouse_missing' },
  { name: 'deletes confirm', make: deletesCommand, args: ['confirm'], missing: 'warehouse_missing' },
  { name: 'deletes discard', make: deletesCommand, args: ['discard'], missing: 'warehouse_missing' },
  { name: 'deliveries list', make: deliveriesCommand, args: ['list'], missing: 'warehouse_missing' },
  { name: 'deliveries show', make: deliveriesCommand, args: ['show', '1'], missing: 'warehouse_missing' },
  { name: 'deliveries replay', make: deliveriesCommand, args: ['replay', '--dead'], missing: 'warehouse_missing' },
] as const;

function stageOn(database: TestDatabase): Promise<Journey> {
  // The generated posts list no images.
  const profile = { relations: { 'content_image_ids.value': null } };
  return journey({
    database,
    isNew: true,
    profile,
    sandbox: { generate: RECORDS },
    source: { webhook: { secrets: [SECRET] } },
  });
}

/** The same with rows and one delivery. */
async function copied(database: TestDatabase): Promise<Journey> {
  const stage = await stageOn(database);
  await stage.run('backfill');
  const inbox = await openInbox(inboxAddress(stage.address), systemClock);
  const received = { received_at: '2026-11-20 08:00:00.000', headers: '{}', is_id_sent: true };
  await inbox.write([{ ...received, delivery_id: 'msg_1', body: Buffer.from('{"a":1}') }]);
  await inbox.close();
  return stage;
}

/** What somebody would notice: every file with its bytes, size and time; every table of the database. */
async function traceOf({ name }: TestDatabase, { folder, address }: Journey): Promise<unknown> {
  if (name === 'postgres') {
    const schema = new URL(address).searchParams.get('schema');
    return rowsOf(address, `SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('${schema}') ORDER BY 1`);
  }
  const files = readdirSync(folder).filter((file) => statSync(path.join(folder, file)).isFile());
  return files.map((file) => {
    const { size, mtimeMs } = statSync(path.join(folder, file));
    const digest = createHash('sha256').update(readFileSync(path.join(folder, file)));
    return { file, size, mtimeMs, digest: digest.digest('hex') };
  });
}

/** The config, with the warehouse at its address for another role. */
function configFor({ config, folder }: Journey, role: string): string {
  const file = path.join(folder, 'as-another.yaml');
  writeFileSync(file, asRole(readFileSync(config, 'utf8'), role));
  return file;
}

describe.for(DATABASES)('commands that read, on $name', (database) => {
  it.for(database === SQLITE ? READING : sampled(READING, 3))(
    'make nothing where nothing is there, and say so: $name',
    async (command) => {
      const stage = await stageOn(database);
      const before = await traceOf(database, stage);
      const run = runInProcess(command.make, [...command.args, '--config', stage.config], stage.folder);
      const refusal: unknown = await run.catch((error: unknown) => error);
      if (!(refusal instanceof ConfigError)) throw new Error('it was not refused', { cause: refusal });
      expect(refusal.code).toBe(command.missing);
      expect(refusal.hint).toMatch(/content-sync (backfill|serve)/);
      expect(await traceOf(database, stage)).toEqual(before);
      expect(stage.sandbox.requests.total).toBe(0);
    },
  );

  it('check asks the service where nothing is there, makes nothing, and says that it could be made', async () => {
    const stage = await stageOn(database);
    const before = await traceOf(database, stage);
    const { code, stdout } = await runInProcess(checkCommand, ['--config', stage.config], stage.folder);
    expect([code, stage.sandbox.requests.total > 0]).toEqual([0, true]);
    expect(stdout).toMatch(/ok {4}copy warehouse: .*not there yet: the first run makes it/);
    expect(await traceOf(database, stage)).toEqual(before);
  });

  it('leave everything as it is where a warehouse is there', async () => {
    const stage = await copied(database);
    const before = await traceOf(database, stage);
    const said: string[] = [];
    for (const { make, args } of READING.filter(({ name }) => /status|list|show/.test(name))) {
      said.push((await runInProcess(make, [...args, '--config', stage.config], stage.folder)).stdout);
    }
    const check = await runInProcess(checkCommand, ['--config', stage.config], stage.folder);
    expect(said.join('\n')).toMatch(/content +30 +0 .* ok /);
    expect(said.join('\n')).toContain('no deletes wait');
    expect(said.join('\n')).toMatch(/1 +2026-11-20 08:00:00 +waiting .* msg_1/);
    expect(said.join('\n')).toContain('{"a":1}');
    expect([check.code, check.stdout]).toEqual([0, expect.not.stringMatching(/warn|FAIL/)]);
    expect(await traceOf(database, stage)).toEqual(before);
  });
});

describe.skipIf(POSTGRES.missing !== null)('commands that read, as a role of Postgres', () => {
  it('need no more than to read, and check says what the role may not', async () => {
    const stage = await copied(POSTGRES);
    const { role } = await limitedRole(stage.address);
    const config = configFor(stage, role);
    const schema = new URL(stage.address).searchParams.get('schema') ?? '';
    const status = () => runInProcess(statusCommand, ['--config', config], stage.folder);
    const refusal: unknown = await status().catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: 'warehouse_refused', hint: expect.stringContaining('GRANT SELECT') });
    const grants = /run: (.*)$/.exec(refusal instanceof ConfigError ? (refusal.hint ?? '') : '')?.[1] ?? '';
    await asOtherClient(stage.address, (client) => client.query(grants));
    expect((await status()).stdout).toMatch(/content +30 +0 .* ok /);
    const list = await runInProcess(deliveriesCommand, ['list', '--config', config], stage.folder);
    expect(list.stdout).toContain('msg_1');
    const check = await runInProcess(checkCommand, ['--config', config], stage.folder);
    expect([check.code, check.stdout]).toEqual([0, expect.stringMatching(/warn {2}copy warehouse: .*not written/)]);
    await asOtherClient(stage.address, (client) => client.query(`DROP SCHEMA ${schema} CASCADE`));
    const without = await runInProcess(checkCommand, ['--config', config], stage.folder);
    expect(without.code).toBe(1);
    expect(without.stdout).toMatch(/FAIL {2}copy warehouse: .*may not create tables in the schema content_sync/);
    expect(without.stdout).toMatch(/GRANT USAGE, CREATE ON SCHEMA/);
  });
});
