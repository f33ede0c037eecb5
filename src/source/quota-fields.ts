import { z } from 'zod';
import { isTimeZone, timeZone } from '../model/time-zone.ts';

/** A number of requests per calendar day or month that a service's documentation states. */
export interface StatedQuota {
  /** By which people know it: `10000/day`, `10000/day 08:00 Europe/Zurich`. */
  name: string;
  requests: number;
  period: 'day' | 'month';
  /** Milliseconds after midnight at which a period begins. */
  reset: number;
  /** Whose midnight that is. */
  zone: string;
}

const EXPECTED = 'expected requests per day or month, such as 10000/day or 200000/month';
const QUOTA = /^([1-9]\d{0,11}) ?\/ ?(day|month)$/;
const TIME = /^([01]\d|2[0-3]):([0-5]\d)$/;

const quotaText = z.string(EXPECTED).regex(QUOTA, EXPECTED);

/** `10000/day`, or the same with the moment at which it comes back; midnight UTC where nothing else is said. */
export const quotaSchema = z
  .union([
    quotaText,
    z.strictObject({
      limit: quotaText.meta({ description: 'requests per day or month', examples: ['10000/day', '200000/month'] }),
      reset: z
        .string()
        .regex(TIME, 'expected a time of day such as 08:00')
        .default('00:00')
        .meta({
          description: 'time of day at which all of it is there again; by month, on the first day',
          examples: ['08:00'],
        }),
      zone: z
        .string()
        .refine(isTimeZone, 'expected a time zone such as America/Los_Angeles, or an offset such as +02:00')
        .default('UTC')
        .meta({ description: 'whose time that is', examples: ['America/Los_Angeles', '+02:00'] }),
    }),
  ])
  .transform((given): StatedQuota => {
    const { limit, reset, zone } = typeof given === 'string' ? { limit: given, reset: '00:00', zone: 'UTC' } : given;
    const [, requests, period] = QUOTA.exec(limit) ?? [];
    const [, hours, minutes] = TIME.exec(reset) ?? [];
    return {
      name: [`${requests}/${period}`, ...(reset === '00:00' ? [] : [reset]), ...(zone === 'UTC' ? [] : [zone])].join(
        ' ',
      ),
      requests: Number(requests),
      period: period === 'month' ? 'month' : 'day',
      reset: (Number(hours) * 60 + Number(minutes)) * 60_000,
      zone,
    };
  });

/** Begin and end of the period in which a moment lies; all in epoch milliseconds. */
export function periodAround(
  { period, reset, zone }: Pick<StatedQuota, 'period' | 'reset' | 'zone'>,
  now: number,
): { from: number; until: number } {
  const place = timeZone(zone);
  const local = new Date(place.toLocal(now) - reset);
  const [year, month] = [local.getUTCFullYear(), local.getUTCMonth()];
  const day = local.getUTCDate();
  const begins = (after: number): number =>
    place.earliest((period === 'day' ? Date.UTC(year, month, day + after) : Date.UTC(year, month + after, 1)) + reset);
  return { from: begins(0), until: begins(1) };
}
