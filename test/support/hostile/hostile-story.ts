import { asOther } from '../temp-warehouse.ts';
import { existsSync } from 'node:fs';
import path from 'node:path';
import type Database from 'better-sqlite3';
import { filesIn, leakFinder } from '../../faults/canaries.ts';
import { type Difference, differencesFrom, hasTable } from '../world/oracle.ts';
import { type Fields, isFields, parsed } from '../world/json-value.ts';
import { faultsOf, type HostileCommand, type HostileRun, runHostile } from './hostile-run.ts';
import { type HostileSource, hostileStage, type HostileStage } from './hostile-service.ts';

const HOUR = 3_600_000;
/** A service that was told to wait for is asked again at most so often. */
const MOST_WAITS = 4;

/** What came of a seed. */
export interface HostileOutcome {
  seed: number;
  /** What happened, line by line. */
  account: readonly string[];
  /** What should not have happened. */
  broken: readonly string[];
  runs: readonly HostileRun[];
}

/**
 * Services that are drawn from a seed do whatever they like to one run or more, then turn honest: the next backfill has
 * to end `ok` with their records.
 */
export async function tellHostileStory(seed: number): Promise<HostileOutcome> {
  const stage = await hostileStage(seed);
  const told: Told = { account: [], broken: [], runs: [] };
  const { random } = stage;
  if (random.chance(0.3)) await playHonest(stage, told);
  stage.setHonest(false);
  const commands = [
    random.pick<HostileCommand>(['backfill', 'sync', 'serve']),
    ...(random.chance(0.3) ? ['sync' as const] : []),
  ];
  for (const command of commands) {
    const stopAfter = random.chance(0.25) ? random.whole(1, 20) : null;
    note(stage, told, await runHostile(stage, command, stopAfter), true);
  }
  await playHonest(stage, told);
  return { seed, ...told };
}

/** A seed's story as text: what each service did, how each run ended, and what should not have happened. */
function hostileAccount({ seed, account, broken }: HostileOutcome): string {
  const again = `SEED=${seed}; to play it again: TEST_LENGTH=long SEED=${seed} SEEDS=1 with hostile-service.test.ts`;
  return [again, ...account, ...broken.map((fault) => `BROKEN ${fault}`)].join('\n');
}

/** Throws the story where anything happened that should not have. */
export function requireHarmless(outcome: HostileOutcome): void {
  if (outcome.broken.length > 0) throw new Error(hostileAccount(outcome));
}

interface Told {
  account: string[];
  broken: string[];
  runs: HostileRun[];
}

/** Where the service asked for a wait, an operator runs the same command again after that time. */
async function playHonest(stage: HostileStage, told: Told): Promise<void> {
  stage.setHonest(true);
  // What a walk met while the service lied is not read again by the run that takes it up, only by the next one.
  const isTakenUp = stored(stage, OPEN_WALKS).length > 0;
  await playUntilDone(stage, told);
  if (isTakenUp) await playUntilDone(stage, told);
  for (const source of stage.sources) {
    for (const text of differencesOf(stage, source)) told.broken.push(`${source.name}: ${text}`);
  }
}

async function playUntilDone(stage: HostileStage, told: Told): Promise<void> {
  for (let waits = 0; ; waits += 1) {
    const run = await runHostile(stage, 'backfill', null);
    const isDeferred = run.ended.code === 4 && waits < MOST_WAITS;
    note(stage, told, run, isDeferred);
    if (!isDeferred) return;
    const until = latestDue(stage);
    stage.aheadMs = Math.max(stage.aheadMs, until - Date.now()) + HOUR;
    told.account.push(`  waited until ${new Date(until).toISOString()}`);
  }
}

function note(stage: HostileStage, told: Told, run: HostileRun, isHostile: boolean): void {
  const { command, ended, watch, isStopped } = run;
  told.runs.push(run);
  const what = `${command}${isStopped ? ', stopped' : ''}: exit ${ended.code ?? ended.signal}`;
  const cost =
    watch === null ? '' : `, ${Math.round(watch.peakBytes / 2 ** 20)} MiB, loop ${Math.round(watch.stalledMs)} ms`;
  told.account.push(`run ${told.runs.length}: ${what}${cost}${isHostile ? '' : ', honest'}`);
  for (const { service } of stage.sources) told.account.push(...service.log.splice(0).map((line) => `  ${line}`));
  const faults = [...faultsOf(run, isHostile), ...leaksIn(stage, run), ...strangersIn(stage)];
  told.broken.push(...faults.map((fault) => `run ${told.runs.length} (${command}): ${fault}`));
}

/** Secrets in what a run has said, or in any file that it left. */
function leaksIn({ folder, sources }: HostileStage, { ended, pages }: HostileRun): string[] {
  const secrets = Object.fromEntries(
    sources.flatMap(({ key, hook, service }) => [key, hook, ...service.tokens].map((secret) => [secret, secret])),
  );
  const find = leakFinder(secrets);
  const texts = [
    ['stdout', ended.stdout],
    ['stderr', ended.stderr],
    ['pages', pages],
    ...filesIn(folder, (file) => file.endsWith('.yaml')),
  ] as const;
  return texts
    .flatMap(([where, text]) => find(where, text))
    .map(({ secret, form, where, around }) => `${secret} stands in ${where} ${form}: ${around}`);
}

/** Credentials that reached a service of somebody else. */
function strangersIn({ sources }: HostileStage): string[] {
  return sources.flatMap(({ name, service }) =>
    sources
      .filter((other) => [other.key, ...other.service.tokens].some((secret) => service.strangers.has(secret)))
      .map((other) => `${name} was sent the credential of ${other.name}`),
  );
}

function differencesOf({ folder }: HostileStage, { name, records }: HostileSource): string[] {
  const file = path.join(folder, `${name}.db`);
  if (!existsSync(file)) return ['there is no copy'];
  const truth = new Map(records.map((record) => [record.id, fieldsOf(JSON.stringify(record))]));
  return asOther(file, (db) => differencesFrom(db, truth, true).filter((each) => !isOverflow(db, each)))
    .slice(0, 6)
    .map(({ kind, text }) => `${kind}: ${text.slice(0, 300)}`);
}

/** Where a service made up more fields than a table has columns, others stand in `_overflow`, and in the body as ever. */
function isOverflow(db: Database.Database, { kind, text }: Difference): boolean {
  if (kind === 'cell as json') return text.includes(': _overflow is ');
  return kind === 'no column' && db.prepare(OVERFLOW).get() !== undefined;
}

const OVERFLOW = "SELECT 1 FROM _sync_columns WHERE table_name = 'content' AND column_name = '_overflow'";

function fieldsOf(text: string): Fields {
  const value = parsed(text);
  if (!isFields(value)) throw new Error(`no record: ${text}`);
  return value;
}

/** The last moment until which any of the services wants to be left alone, as far as is stored. */
function latestDue(stage: HostileStage): number {
  const moments = stored(stage, DUE).map((moment) => Date.parse(`${moment.replace(' ', 'T')}Z`));
  return Math.max(Date.now(), ...moments);
}

const DUE = 'SELECT due_at FROM _sync_checkpoints WHERE due_at IS NOT NULL';
const OPEN_WALKS = 'SELECT resource FROM _sync_checkpoints WHERE walk_mode IS NOT NULL';

/** The first column of what a query finds in the checkpoints of all sources. */
function stored({ folder, sources }: HostileStage, query: string): string[] {
  return sources.flatMap(({ name }) => {
    const file = path.join(folder, `${name}.db`);
    if (!existsSync(file)) return [];
    return asOther(file, (db) =>
      hasTable(db, '_sync_checkpoints') ? db.prepare<[], string>(query).pluck().all() : [],
    );
  });
}
