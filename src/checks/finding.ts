import { errorReport, type ErrorReport } from '../model/errors.ts';

/** One thing that was tested against the live service. */
export interface CheckFinding {
  check: string;
  status: 'ok' | 'warn' | 'fail';
  detail: string;
  hint?: string | undefined;
  /** Of a test that failed with one. */
  error?: ErrorReport;
}

/** The finding of a test that threw. */
export function failure(check: string, error: unknown): CheckFinding {
  const report = errorReport(error);
  return { check, status: 'fail', detail: report.message, hint: report.hint, error: report };
}
