import { visibleText } from '../../model/visible-text.ts';
import { countOf, countText } from '../../observe/figures.ts';
import { NO_TRACES, type TraceCounts } from '../../sync/forget/traces.ts';
import type { ForgottenRow } from '../../warehouse/own-tables.ts';

/** A report that can be filed: it names no id. */
export interface ForgetReport {
  source: string;
  resource: string;
  /** `unfinished`: something is left, which `todo` says; the same command again does it. */
  outcome: 'erased' | 'unfinished' | 'dry run';
  /** UTC. */
  at: string;
  /** Of content-sync. */
  version: string;
  records: number;
  /** Ids of which nothing is stored. */
  unknown: number;
  /** What was erased, or would be. */
  erased: TraceCounts;
  /** HMAC-SHA256 under `privacy_key`, by which the records are known when they come again. */
  fingerprints: string[];
  todo: string[];
  /** What content-sync cannot reach. */
  yours: string[];
}

interface Reported {
  source: string;
  resource: string;
  version: string;
  at: string;
  unknown: number;
  rows: readonly (Pick<ForgottenRow, 'counts'> & { fingerprint: string | null })[];
  /** True if nothing was to be erased, but only counted. */
  isDry?: boolean;
  /** False while another process owns the resource. */
  isErased: boolean;
  isClean: boolean;
  waiting: number;
  /** True if contents of files are still in a store. */
  areFilesLeft?: boolean;
  /** Files of a killed restore. */
  leftovers: readonly string[];
}

const YOURS = [
  'exports (content-sync export): content-sync does not know where they lie; export again, and remove the older files, also older versions of objects in a bucket',
  'backups of the warehouse and its inbox, replicas and snapshots of disks; on Postgres also archived logs (WAL), what the server keeps in pg_wal until it is written over, and dead rows of pg_statistic, which hold sample values until an administrator runs VACUUM FULL pg_statistic',
  'what others made of the data: tables and materialised views beside the copied ones, extracts in BI tools',
  'references to the id in other records, which stay as the service sends them; the service itself, if it is to forget the record too',
];

export function reportOf(reported: Reported): ForgetReport {
  const { source, resource, version, at, unknown, rows, isDry = false, isErased, isClean, leftovers } = reported;
  const erased = { ...NO_TRACES };
  for (const { counts } of rows) {
    const found: Partial<TraceCounts> = { ...NO_TRACES, ...parsed(counts) };
    for (const what of WHAT) erased[what] += found[what] ?? 0;
  }
  return {
    source,
    resource,
    outcome: isDry ? 'dry run' : isErased && isClean && leftovers.length === 0 ? 'erased' : 'unfinished',
    at: `${at.slice(0, 19).replace(' ', 'T')}Z`,
    version,
    records: rows.length,
    unknown,
    erased,
    fingerprints: rows.flatMap(({ fingerprint }) => (fingerprint === null ? [] : [fingerprint])),
    todo: listWhatIsLeft(reported),
    yours: YOURS,
  };
}

function listWhatIsLeft(reported: Reported): string[] {
  const { resource, unknown, rows, isDry = false, isErased, isClean, waiting, leftovers } = reported;
  const { areFilesLeft = false } = reported;
  const isRead = isErased && !isClean && !areFilesLeft;
  const lines: readonly (readonly [applies: boolean, line: string])[] = [
    [rows.length === 0, isDry ? 'no record is meant by this' : 'nothing was to be erased'],
    [unknown > 0, `${countOf(unknown, 'id is', 'ids are')} not in the copy, and not blocked: check the spelling`],
    [
      !isErased && !isDry,
      `another process owns ${resource}: a serve erases the records within seconds, any other process leaves them to this command; run it again`,
    ],
    [
      areFilesLeft,
      'contents of files are still in their store, because files are being fetched, the store cannot be used, or the settings do not name it any more; run the command again, or content-sync files prune',
    ],
    [
      isRead,
      'somebody still reads what was there before, so the log or dead rows could not be taken away; run the command again',
    ],
    ...leftovers.map((file) => {
      const line = `${file} is left of a restore that was killed, with the records in it: run the restore again, or delete the file`;
      return [true, line] as const;
    }),
    [
      waiting > 0,
      `${countText(waiting)} waiting deliveries name other records too: the next content-sync serve reads those and erases the deliveries`,
    ],
  ];
  return lines.flatMap(([applies, line]) => (applies ? [line] : []));
}

const WHAT = [
  'rows',
  'children',
  'versions',
  'rejects',
  'deletes',
  'files',
  'deliveries',
] as const satisfies readonly (keyof TraceCounts)[];
const WORDS: Readonly<Record<(typeof WHAT)[number], string>> = {
  rows: 'rows',
  children: 'rows of lists',
  versions: 'versions',
  rejects: 'records set aside',
  deletes: 'notes of deletes',
  files: 'files',
  deliveries: 'deliveries',
};

function parsed(counts: string | null): Partial<TraceCounts> {
  const value: unknown = JSON.parse(counts ?? '{}');
  return typeof value === 'object' && value !== null ? value : {};
}

/** For a person, and for the file. */
export function reportText(report: ForgetReport): string {
  const { source, resource, outcome, at, version, records, erased, fingerprints, todo, yours } = report;
  const counts = WHAT.map((what) => `${countText(erased[what])} ${WORDS[what]}`).join(', ');
  const verb = outcome === 'dry run' ? 'would be erased' : outcome === 'erased' ? 'erased' : 'not erased completely';
  const lines = [
    `${source}: ${countText(records)} ${records === 1 ? 'record' : 'records'} of ${resource} ${verb}`,
    `  when          ${at}, by content-sync ${version}`,
    `  what          ${counts}`,
    ...fingerprints.map((fingerprint, at_) => `  ${at_ === 0 ? 'fingerprints  ' : ' '.repeat(14)}${fingerprint}`),
    ...todo.map((line) => `  → ${line}`),
    ...(outcome === 'dry run' || records === 0
      ? []
      : ['', '  Yours to clean, because content-sync cannot reach it:', ...yours.map((line) => `  - ${line}`)]),
  ];
  return lines.map(visibleText).join('\n');
}
