import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { SyncError } from '../../src/model/errors.ts';
import type { Credential } from '../../src/probe/credential-forms.ts';
import { type ProbeResult, probeService } from '../../src/probe/probe-service.ts';
import { toYaml } from '../../src/probe/profile.ts';
import { SQLITE } from '../support/databases.ts';
import { type Dialect, drawDialect } from '../support/dialect/dialect.ts';
import { PostEditor, Posts } from '../support/dialect/posts.ts';
import { DialectService, shown } from '../support/dialect/service.ts';
import { SPOKEN } from '../support/dialect/spoken.ts';
import { brokenPromises } from '../support/dialect/story.ts';
import { type Random, randomFrom } from '../support/random.ts';
import { tempFolder } from '../support/temp-warehouse.ts';
import { type Run, Runner } from '../support/world/runner.ts';
import { WorldClock } from '../support/world/world-clock.ts';

/** What came of probing a random service and copying it by the profile that was found. */
export interface ProbedDialect {
  dialect: Dialect;
  /** Null where no listing, or no way through it, was found. */
  result: ProbeResult | null;
  requests: number;
  runs: readonly Omit<Run, 'moves'>[];
  /** Promises of runs that ended `ok` and were not kept. */
  broken: readonly string[];
  yaml: string;
}

const HOUR = 3_600_000;

/** What is told to `probe` of each way to log in: the name that a person would read in the service's documents. */
const FORMS: Readonly<Record<string, string | undefined>> = {
  none: undefined,
  bearer: undefined,
  basic: undefined,
  'key in a header': 'header:X-Cms-Token',
  'key in the query': 'query:api[key]',
};

/** Services that a GET without further knowledge can read. */
function drawProbable(random: Random): Dialect {
  const auth = SPOKEN.auth.filter(({ name }) => name in FORMS);
  const request = SPOKEN.request.filter(({ name }) => name === 'GET');
  const places = SPOKEN.places.filter(({ values }) => values === null);
  // Nothing in a listing tells of a second path that lists deletes.
  const deletes = SPOKEN.deletes.filter(({ route }) => route === undefined);
  // Nor does a listing tell that it is cut off.
  const filter = SPOKEN.filter.filter(({ name }) => !name.startsWith('windows'));
  const dialect = drawDialect(random, { ...SPOKEN, auth, request, places, deletes, filter });
  return { ...dialect, isMixed: false, drift: 0, trouble: 0 };
}

/** Draws a service, probes it, and copies it while it changes. */
export async function tellProbed(seed: number): Promise<ProbedDialect> {
  const random = randomFrom(seed);
  const dialect = drawProbable(random);
  const clock = new WorldClock('2026-03-02T06:00:00.000Z', 0);
  const log: string[] = [];
  const posts = new Posts((post) => shown(dialect, post));
  const editor = new PostEditor(posts, dialect, random, log);
  const service = new DialectService({ dialect, posts, editor, clock, random, log });
  editor.fill(dialect.records, clock.now() - 240 * HOUR, clock.now() - 2 * HOUR);
  const base_url = `${await service.start()}/v1`;
  const told = await probeDialect(dialect, base_url, clock);
  const outcome = {
    dialect,
    requests: log.length,
    runs: [],
    broken: [],
    yaml: told instanceof SyncError ? told.message : toYaml(told),
  };
  if (told instanceof SyncError) return { ...outcome, result: null };
  const folder = tempFolder();
  const { secret, user } = credentialOf(dialect);
  writeFileSync(path.join(folder, 'profile.yaml'), outcome.yaml);
  const auth = authSettings(told.form.scheme, { secret, user });
  const blog = { base_url, auth, profile: './profile.yaml', deletes: { max_rows: 10_000, max_part: 1 } };
  const config = { warehouse: `sqlite:${folder}/{source}.db`, log: { level: 'silent' }, sources: { blog } };
  writeFileSync(path.join(folder, 'content-sync.yaml'), JSON.stringify(config));
  const runner = new Runner(folder, clock, service);
  const runs: Omit<Run, 'moves'>[] = [];
  const broken: string[] = [];
  for (const [at, command] of (['backfill', 'sync', 'backfill', 'backfill'] as const).entries()) {
    const run = await runner.run(command, null);
    runs.push(run);
    const ended = { mode: run.mode, isOk: run.status === 'ok', walkedSince: service.now(), isLast: at === 3 };
    const found = await SQLITE.read(`sqlite:${folder}/blog.db`, (db) => brokenPromises(db, ended, { dialect, posts }));
    broken.push(
      ...found.map(({ promise, differences }) => `${at} ${command}: ${promise} ${JSON.stringify(differences[0])}`),
    );
    clock.push(dialect.lateMs + dialect.lookbackMs + HOUR);
    if (at < 2) for (let edits = random.whole(0, 5); edits > 0; edits -= 1) editor.edit(service.now());
    clock.push(dialect.lateMs + dialect.lookbackMs + HOUR);
  }
  return { ...outcome, result: told, runs, broken };
}

/** The secrets of a source for a scheme that `probe` has found. */
function authSettings(scheme: ProbeResult['form']['scheme'], { secret, user = '' }: Credential): object {
  const secrets: Readonly<Record<string, object>> = {
    bearer: { token: secret },
    basic: { username: user, password: secret },
    api_key: { key: secret },
  };
  return { type: scheme['type'] ?? 'none', ...secrets[scheme['type'] ?? ''] };
}

function credentialOf({ auth }: Dialect): Credential {
  const { key, token, password, username } = auth.settings;
  const secret = key ?? token ?? password;
  return {
    secret: typeof secret === 'string' ? secret : '',
    user: typeof username === 'string' ? username : undefined,
  };
}

async function probeDialect(dialect: Dialect, url: string, clock: WorldClock): Promise<ProbeResult | SyncError> {
  const credential = credentialOf(dialect);
  try {
    return await probeService({
      baseUrl: new URL(url),
      credential: credential.secret === '' ? null : credential,
      auth: FORMS[dialect.auth.name],
      paths: ['/content'],
      clock,
      secrets: [],
      signal: new AbortController().signal,
    });
  } catch (error) {
    if (error instanceof SyncError) return error;
    throw error;
  }
}

/** True if the last run ended well, and no run ended `ok` over a copy that was not the service. */
export function isEqual({ result, runs, broken, yaml }: ProbedDialect): boolean {
  const said = runs.at(-1)?.said ?? [];
  // A single record that is left, or none, confirms no delete and verifies no guess: such a run says so.
  const isTooFew =
    /only one record|too few records/.test(yaml) && said.some((each) => each.startsWith('profile_unverified'));
  const isHonest = isTooFew || said.some((each) => /^(?:empty_listing|deletes_held)/.test(each));
  return result !== null && broken.length === 0 && (runs.at(-1)?.status === 'ok' || isHonest);
}
