# %% datetime: arithmetic, ISO text, comparisons
from datetime import date, datetime, time, timedelta, timezone
moment = datetime(2024, 2, 28, 23, 30, 15, 250_000, tzinfo=timezone.utc)
later = moment + timedelta(days=1, hours=2)
[
    later.isoformat(), str(later - moment), moment.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat(), datetime.fromisoformat("2024-02-29T12:00:00Z").timestamp(), date(2024, 12, 30).isocalendar()[:], date.fromisocalendar(2025, 1, 1).isoformat(), date(2024, 3, 1) - date(2024, 2, 1) == timedelta(29),
    moment.replace(microsecond=0, tzinfo=None) < datetime(2025, 1, 1), time(14, 5).isoformat(timespec="seconds"), date(2000, 2, 29).toordinal(), datetime.combine(date(2024, 1, 1), time(1, 2)).isoformat(" "), moment.timestamp(), datetime.fromtimestamp(0, timezone.utc).isoformat(), date.max.isoformat(), (date(2024, 2, 29) + timedelta(365)).isoformat(),
]

# %% datetime: strftime, strptime
from datetime import datetime, timezone
moment = datetime(2026, 2, 3, 14, 5, 9, 1234)
[
    moment.strftime("%Y %y %m %d %H %I %M %S %f %p %j %U %W %w %a %A %b %B %% %G-W%V-%u"), moment.strftime("%d.%m.%Y"), datetime.strptime("Tue, 03 Feb 2026 14:05:09 +0100", "%a, %d %b %Y %H:%M:%S %z").isoformat(), f"{moment:%H:%M}", datetime.strptime("2026-034", "%Y-%j").isoformat(),
    datetime.strptime("5:07 PM", "%I:%M %p").hour, datetime(2026, 2, 3, tzinfo=timezone.utc).strftime("%z %Z"),
]

# %% datetime: timedelta
from datetime import timedelta
span = timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5, milliseconds=6, microseconds=7)
[str(span), span.total_seconds(), [span.days, span.seconds, span.microseconds], str(-timedelta(hours=1)), str(span / 2), span // timedelta(hours=5), str(span % timedelta(hours=5)), str(abs(timedelta(-1, 5))), repr(timedelta(seconds=90)), timedelta(hours=24) == timedelta(days=1), str(timedelta(days=1) * 1.5), timedelta.max.days]

# %% datetime: invalid dates are rejected
from datetime import date, datetime, timedelta
def told(work):
    try:
        return str(work())
    except (ValueError, OverflowError, TypeError) as error:
        return type(error).__name__
[told(lambda: date(2023, 2, 29)), told(lambda: datetime(2023, 1, 1, 24)), told(lambda: date.max + timedelta(1)), told(lambda: datetime.strptime("x", "%Y")), told(lambda: date.fromisoformat("2023-13-01")), told(lambda: datetime(2023, 1, 1) < date(2023, 1, 1)), told(lambda: timedelta(days=10**10)), told(lambda: date(2024, 2, 29).replace(year=2023))]

# %% datetime: a custom time zone
from datetime import datetime, timedelta, timezone, tzinfo
class Summer(tzinfo):
    def utcoffset(self, moment):
        return timedelta(hours=1) + self.dst(moment)
    def dst(self, moment):
        return timedelta(hours=1) if 3 < moment.month < 10 else timedelta(0)
    def tzname(self, moment):
        return "SUMMER" if self.dst(moment) else "WINTER"
winter, summer = datetime(2024, 1, 1, 12, tzinfo=Summer()), datetime(2024, 7, 1, 12, tzinfo=Summer())
[winter.isoformat(), summer.isoformat(), winter.tzname(), summer.tzname(), summer.astimezone(timezone.utc).isoformat(), str(summer - winter), summer.utctimetuple().tm_hour, datetime(2024, 1, 1, fold=1).fold]

# %% calendar: months as text and as numbers
import calendar
[calendar.month(2024, 2), calendar.monthrange(2024, 2)[1], calendar.isleap(1900), calendar.leapdays(2000, 2025), calendar.weekday(2026, 11, 22), calendar.Calendar(6).monthdayscalendar(2026, 2), calendar.timegm((1970, 1, 2, 0, 0, 0)), list(calendar.day_abbr), calendar.TextCalendar(0).formatweekheader(3), [each.isoformat() for each in calendar.Calendar().itermonthdates(2026, 2)][:2]]

# %% zoneinfo: a zone from the bytes of its file
import io, struct, zoneinfo
from datetime import datetime, timedelta, timezone
def zone_file(transitions, kinds, names):
    head = b"TZif\0" + bytes(15) + struct.pack(">6l", 0, 0, 0, len(transitions), len(kinds), len(names))
    times = b"".join(struct.pack(">l", at) for at, _ in transitions) + bytes(kind for _, kind in transitions)
    return head + times + b"".join(struct.pack(">lbB", *kind) for kind in kinds) + names
spring, autumn = 1711846800, 1729990800
data = zone_file([(spring, 1), (autumn, 0)], [(3600, 0, 0), (7200, 1, 4)], b"CET\0CEST\0")
zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(data), key="Made/Zone")
moments = [datetime(2024, 3, 31, 0, 59, tzinfo=timezone.utc), datetime(2024, 3, 31, 1, 0, tzinfo=timezone.utc), datetime(2024, 10, 27, 0, 30, tzinfo=timezone.utc), datetime(2024, 10, 27, 1, 30, tzinfo=timezone.utc)]
[[moment.astimezone(zone).isoformat() for moment in moments], [moment.astimezone(zone).tzname() for moment in moments], moments[3].astimezone(zone).fold, str(zone), datetime(2024, 7, 1, tzinfo=zone).dst() == timedelta(hours=1)]
