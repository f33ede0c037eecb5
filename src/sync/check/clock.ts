import type { Page } from '../../extract/page.ts';
import type { Clock } from '../../model/clock.ts';
import type { CheckFinding } from './finding.ts';

/** Beyond this the service's clock and ours differ by more than a slow answer explains. */
const CLOCK_SKEW_MS = 30_000;
/** Whether the service's clock, by the answer's `Date`, agrees with ours. */
export function clockFinding(page: Page, clock: Clock): CheckFinding {
  if (page.serverDate === null) {
    const detail = "the answers have no Date within a day of this machine's clock, so the service's is not known";
    return { check: 'clock', status: 'warn', detail, hint: "see that this machine's clock is right" };
  }
  const skew = Math.round((page.serverDate - clock.now()) / 1_000);
  if (Math.abs(skew) * 1_000 <= CLOCK_SKEW_MS)
    return { check: 'clock', status: 'ok', detail: `within ${Math.abs(skew) + 1} s` };
  const detail = `the service's clock is ${Math.abs(skew)} s ${skew > 0 ? 'ahead of' : 'behind'} this machine's`;
  return {
    check: 'clock',
    status: 'warn',
    detail,
    hint: "cursors follow the service's clock, so nothing is lost by it",
  };
}
