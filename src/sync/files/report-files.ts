import type { FileStatus } from '../../database/own-tables.ts';
import { countFiles } from '../../database/state/files.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Warning } from '../warnings.ts';
import type { SettledFile } from './file-changes.ts';

/** What a round did with the files of a resource, and how they stand at its end; sizes in bytes. */
export interface FilesFigures extends Record<FileStatus, number> {
  /** Contents that were fetched, and their bytes. */
  fetched: number;
  bytes: number;
  /** Files that were asked for, or whose record tells it, and are as they were. */
  unchanged: number;
}

/** The files of one resource. */
export interface FilesReport {
  resource: string;
  figures: FilesFigures;
  warnings: Warning[];
}

const NONE: FilesFigures = {
  fetched: 0,
  bytes: 0,
  unchanged: 0,
  stored: 0,
  waiting: 0,
  failed: 0,
  refused: 0,
  gone: 0,
};

/** Counts what becomes of files. */
export class FileFigures {
  readonly #counts = new Map<string, Pick<FilesFigures, 'fetched' | 'bytes' | 'unchanged'>>();

  add({ row, outcome }: SettledFile): void {
    const counts = this.#counts.get(row.resource) ?? { fetched: 0, bytes: 0, unchanged: 0 };
    this.#counts.set(row.resource, counts);
    if (outcome.is === 'unchanged') counts.unchanged += 1;
    if (outcome.is !== 'here') return;
    counts.bytes += outcome.fetched;
    if (outcome.content.sha256 === row.sha256) counts.unchanged += 1;
    else counts.fetched += 1;
  }

  /** With how the files of these resources stand now; `stopped` is why some were not asked for, by a person's words. */
  async report(warehouse: Warehouse, resources: readonly string[], stopped: readonly string[]): Promise<FilesReport[]> {
    const counted = await countFiles(warehouse.own);
    return resources.map((resource) => {
      const figures = { ...NONE, ...this.#counts.get(resource) };
      for (const count of counted) if (count.resource === resource) figures[count.status] += count.files;
      return { resource, figures, warnings: warningsOf(resource, figures, stopped) };
    });
  }
}

function warningsOf(
  resource: string,
  { failed, refused, waiting }: FilesFigures,
  stopped: readonly string[],
): Warning[] {
  const look = `content-sync files status ${resource} names them`;
  const warnings: Warning[] = [];
  if (failed > 0) {
    const message = `${count(failed)} of ${resource} could not be fetched`;
    warnings.push({ code: 'files_failed', message, hint: `they are tried again, after growing pauses; ${look}` });
  }
  if (refused > 0) {
    const message = `${count(refused)} of ${resource} ${refused === 1 ? 'was' : 'were'} refused: too large, of another type, or at an address that may not be asked`;
    warnings.push({ code: 'files_refused', message, hint: `${look}; the profile's files say what is admitted` });
  }
  if (waiting > 0) {
    const why = stopped.length === 0 ? '' : `: ${stopped.join('; ')}`;
    const message = `${count(waiting)} of ${resource} ${waiting === 1 ? 'waits' : 'wait'} to be fetched${why}`;
    warnings.push({ code: 'files_waiting', message, hint: 'the next run goes on with them' });
  }
  return warnings;
}

function count(files: number): string {
  return files === 1 ? '1 file' : `${files} files`;
}
