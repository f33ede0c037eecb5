/** One thing that was tested against the live service. */
export interface CheckFinding {
  check: string;
  status: 'ok' | 'warn' | 'fail';
  detail: string;
  hint?: string | undefined;
}
