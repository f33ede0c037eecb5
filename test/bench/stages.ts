/** What a backfill does, in the order of the way of a record. */
export const STAGES = [
  'start',
  'read',
  'split',
  'parse',
  'key',
  'hash',
  'compare',
  'shape',
  'write',
  'wait',
  'garbage',
  'other',
] as const;

export type Stage = (typeof STAGES)[number];

/** Milliseconds of CPU by stage; `wait` is time without work. */
export type StageTimes = Readonly<Record<Stage, number>>;

/** A profile as Node writes it (`--cpu-prof`). */
export interface CpuProfile {
  nodes: readonly ProfileNode[];
  samples: readonly number[];
  /** Microseconds before each sample. */
  timeDeltas: readonly number[];
}

interface ProfileNode {
  id: number;
  /** `url` is a file's path or URL, and empty for what the engine does itself. */
  callFrame: { functionName: string; url: string; lineNumber: number; columnNumber: number };
  children?: readonly number[];
}

/**
 * Files and folders of ours by stage, the longest that fits; what stands in none of them counts for whoever has called it.
 * A test holds that all of them are there.
 */
export const PLACES: Readonly<Record<string, Stage>> = {
  'src/main.ts': 'start',
  'src/app.ts': 'start',
  'src/cli': 'start',
  'src/settings': 'start',
  'src/source': 'start',
  'src/warehouse/migrate.ts': 'start',
  migrations: 'start',
  'src/http': 'read',
  'src/queue': 'read',
  'src/extract': 'read',
  'src/shape/records/select-records.ts': 'split',
  'src/shape/records/unwrap.ts': 'split',
  'src/shape/json/scan-json.ts': 'split',
  'src/shape/json': 'parse',
  'src/shape/records': 'key',
  'src/load/key-records.ts': 'key',
  'src/extract/guards': 'key',
  'src/sync/deletes': 'key',
  'src/shape/records/fingerprint.ts': 'hash',
  'src/shape/records/key-fingerprint.ts': 'hash',
  'src/shape/records/record-difference.ts': 'compare',
  'src/load/difference.ts': 'compare',
  'src/load/prepare-page.ts': 'compare',
  'src/shape': 'shape',
  'src/load': 'shape',
  'src/views': 'write',
  'src/state': 'write',
  'src/warehouse': 'write',
};

/** Libraries and parts of Node, in the same way. */
const FOREIGN: Readonly<Record<string, Stage>> = {
  'node_modules/undici': 'read',
  'node_modules/better-sqlite3': 'write',
  'node_modules/kysely': 'write',
  'node_modules/pg': 'write',
  'node_modules/pg-protocol': 'write',
  'node_modules/pg-copy-streams': 'write',
  'node_modules/zod': 'start',
  'node_modules/yaml': 'start',
  'node_modules/commander': 'start',
  'node:internal/modules': 'start',
  'node:internal/bootstrap': 'start',
};

const PLACE_LIST = Object.entries({ ...PLACES, ...FOREIGN }).toSorted(([a], [b]) => b.length - a.length);

/** What the engine does beside all functions. */
const ENGINE: Readonly<Record<string, Stage>> = {
  '(garbage collector)': 'garbage',
  '(idle)': 'wait',
  '(program)': 'other',
};

/** The stage of a file, by its path from the root of the project; null if it belongs to none. */
export function stageOf(file: string): Stage | null {
  return PLACE_LIST.find(([place]) => file === place || file.startsWith(`${place}/`))?.[1] ?? null;
}

/** Adds up a profile by stage. `fileOf` names the file in which a node's code was written, from the root of the project. */
export function stageTimes(profile: CpuProfile, fileOf: (frame: ProfileNode['callFrame']) => string): StageTimes {
  const parents = new Map(profile.nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const stages = new Map<number, Stage>();
  const stageOfNode = (id: number): Stage => {
    const node = nodes.get(id);
    const known = stages.get(id);
    if (known !== undefined || node === undefined) return known ?? 'other';
    const { callFrame } = node;
    const own = callFrame.url === '' ? ENGINE[callFrame.functionName] : stageOf(fileOf(callFrame));
    const stage = own ?? stageOfNode(parents.get(id) ?? -1);
    stages.set(id, stage);
    return stage;
  };
  const times = Object.fromEntries(STAGES.map((stage) => [stage, 0]));
  for (const [at, id] of profile.samples.entries()) {
    const stage = stageOfNode(id);
    times[stage] = (times[stage] ?? 0) + (profile.timeDeltas[at] ?? 0) / 1_000;
  }
  // oxlint-disable-next-line no-unsafe-type-assertion -- it was made of all stages
  return times as Record<Stage, number>;
}

/** Rows of a Markdown table: milliseconds by stage, a column per profile. */
export function stageTable(columns: Readonly<Record<string, StageTimes>>): string {
  const names = Object.keys(columns);
  const lines = STAGES.map((stage) => {
    const cells = Object.values(columns).map((times) => String(Math.round(times[stage])));
    return `| ${[stage, ...cells].join(' | ')} |`;
  });
  const head = [`| ms | ${names.join(' | ')} |`, `| --- |${' --- |'.repeat(names.length)}`];
  return [...head, ...lines, ''].join('\n');
}
