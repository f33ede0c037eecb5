/** The way from nothing to a fresh copy, as the help and the demo show it. */
export const FIRST_STEPS = `
  content-sync init        ask for address and credential, write a config that works
  content-sync backfill    copy everything; run it again after a stop, it resumes
  content-sync sync        bring in what changed since; this is what a schedule calls
  content-sync serve       keep the copy fresh: schedule, webhooks, deletes, a status page`;
