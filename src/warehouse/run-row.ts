import type { RunStatus, WalkMode } from '../model/vocabulary.ts';

/** One resource's part in a run, or in several in a row that changed nothing. Times are UTC text, as in all our own tables. */
export interface RunRow {
  run_id: string;
  resource: string;
  command: string;
  mode: WalkMode;
  status: RunStatus | 'running';
  started_at: string;
  finished_at: string | null;
  pages: number;
  requests: number;
  records: number;
  inserted: number;
  updated: number;
  unchanged: number;
  rejected: number;
  /** Records that this run found to be deleted. */
  deleted: number;
  /** Suspected deletes that wait for a person when the run ends. */
  held: number;
  retries: number;
  limited: number;
  bytes: number;
  error_code: string | null;
  error: string | null;
  /** JSON array of `{code, message, hint, accepted?}`: what the run warned of; null for nothing. */
  warnings: string | null;
  /** How many runs the row stands for; its figures and times are those of the latest one. */
  runs: number;
  /** When the first of them began, and what all of them asked for; null in a row of one run. */
  first_started_at: string | null;
  all_requests: number | null;
  all_bytes: number | null;
  /** JSON object: attempts of all its runs by outcome; null while it is under way, and of runs before there was one. */
  outcomes: string | null;
  error_hint: string | null;
  /** By which the service's operators find the request that failed; null if its answer named none. */
  request_id: string | null;
  /** Records that were dropped because a person has had them erased. */
  forgotten?: number | undefined;
}
