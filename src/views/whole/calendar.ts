import type { View } from '../view.ts';
import { ownView } from './own-view.ts';

/** `calendar`: a row per day, so that days, weeks and months in which nothing happened are there too. */
export function calendarView(): View[] {
  return [ownView('calendar', 'One row per day, from the first year of the data to two years ahead.', COLUMNS, FROM)];
}

const COLUMNS = [
  ['date', 'date', 'd."date"', 'The day.'],
  ['month', 'text', 'd."month"', 'Its month, such as 2024-05.'],
  ['quarter', 'text', 'd."quarter"', 'Its quarter, such as 2024-Q2.'],
  ['year', 'integer', 'd."year"', 'Its year.'],
  [
    'iso_week',
    'text',
    'd."iso_week"',
    'Its week by ISO 8601, such as 2024-W01; its year may be another than the day has.',
  ],
  ['weekday', 'integer', 'd."weekday"', 'The day of the week from 1, Monday, to 7, Sunday.'],
  ['is_weekend', 'boolean', 'd."is_weekend"', 'True on Saturday and Sunday.'],
] as const;

const FROM = ' FROM "_sync_calendar" AS d';
