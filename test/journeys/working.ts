import { startCommand, type Command } from '../support/command.ts';
import { until, type ServingStage } from '../support/serving.ts';

/** Starts a worker beside what the stage runs; resolves once it takes work. */
export async function startWorker(stage: ServingStage, ...options: string[]): Promise<Command> {
  const config = ['--config', `${stage.folder}/content-sync.yaml`];
  const command = startCommand(['worker', ...config, '--port', '0', ...options], stage.folder);
  const hasEnded = command.ended.then(({ stderr }) => Promise.reject(new Error(`the worker ended: ${stderr}`)));
  hasEnded.catch(() => undefined);
  await Promise.race([until('working', () => command.logged().includes('"msg":"working"')), hasEnded]);
  return command;
}

/** Where a worker has its health and metrics, as its log says. */
export function urlOf(worker: Command): string {
  return /"url":"([^"]+)"/.exec(worker.logged())?.[1] ?? '';
}

interface Walk {
  resource: string;
  mode: string;
  status: string;
}

/** All walks that were begun, in the order of their resources. */
export const walksOf = (stage: ServingStage): Promise<Walk[]> =>
  stage.read((db) =>
    db.prepare<[], Walk>('SELECT resource, mode, status FROM _sync_runs ORDER BY resource, started_at').all(),
  );

export const FIRST_WALKS: readonly Walk[] = ['analytics', 'content', 'images'].map((resource) => ({
  resource,
  mode: 'full',
  status: 'ok',
}));

export const isWhole = ({ status }: Walk): boolean => status === 'ok';

/** Who holds leases just now. */
export const ownersIn = (stage: ServingStage): Promise<string[]> =>
  stage.read((db) => db.prepare<[], string>("SELECT owner FROM _sync_leases WHERE expires_at > '2000'").pluck().all());

/** Pages that were asked for more than once. */
export function askedTwice({ sandbox }: ServingStage): string[] {
  const asked = sandbox.requests.entries().map(({ path }) => path);
  return asked.filter((path, at) => asked.indexOf(path) !== at);
}
