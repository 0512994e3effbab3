module kscheduler/sdk

go 1.24
